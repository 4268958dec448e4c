#!/usr/bin/env bash
# Runs LangGraph's own tests of its server against hier's: they are on no registry, so HIER_SUITES names a folder with checkouts of
# langchain-ai/langgraph (`langgraph`) and langchain-ai/langgraphjs (`langgraphjs`); docs/server.md says which commits, and what passes.
# Without it, this does nothing.
#
#   HIER_SUITES=../checkouts scripts/suites.sh [sdk-py|langgraphjs] [-- --db URL]
#
# They are not changed: one has the address of its server, localhost:2024, in it. So each runs in a network of its own (`unshare`).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${HIER_SUITES:-}" ]; then
    echo "LangGraph's own suites are skipped: HIER_SUITES names no folder with their checkouts"
    exit 0
fi
suites=(sdk-py langgraphjs)
case "${1:-}" in
    sdk-py | langgraphjs) suites=("$1"); shift ;;
esac
[ "${1:-}" != -- ] || shift
server=("${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/compat_server" "$@")

# Those that cannot pass: docs/server.md says why. A suite passes if no other fails.
known() {
    case $1 in
        sdk-py) ;;
        langgraphjs) cat <<'END' ;;
assistants > schemas
assistants > config from env
assistants > create read update delete
assistants > delete assistant and threads
subgraphs > get subgraphs
runs > stream events
subgraphs > human in the loop - no modification
continue after interrupt must have checkpoint present
dynamic graph
generative ui
custom routes
custom routes - mutate request body
custom routes - langgraph
END
    esac
}

python_suite() {
    local venv=$PWD/.tools/suite-py
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement hier-server/tests/clients/requirements.txt \
        pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0
    cd "$HIER_SUITES/langgraph/libs/sdk-py"
    run=("$venv/bin/python" -m pytest -m integration tests/integration -p no:cacheprovider --timeout 60 -q -rfE)
}

javascript_suite() {
    local from=$HIER_SUITES/langgraphjs/libs/langgraph-api folder=$PWD/.tools/suite-js
    mkdir -p "$folder/tests"
    # Its packages are those that it names; here only those that the file needs.
    cat >"$folder/package.json" <<'END'
{
    "private": true,
    "type": "module",
    "dependencies": {
        "@langchain/core": "1.3.4", "@langchain/langgraph": "1.7.3", "@langchain/langgraph-sdk": "1.15.0",
        "postgres": "3.4.5", "vitest": "4.1.10", "wait-port": "1.1.0"
    }
}
END
    npm install --prefix "$folder" --no-audit --no-fund --loglevel error
    cp "$from"/tests/{api.test,utils,schema-expectations}.mts "$folder/tests/"
    cp "$from/vitest.config.js" "$folder/"
    cd "$folder"
    run=(npx vitest run tests/api.test.mts --reporter=verbose --no-color)
}

for suite in "${suites[@]}"; do
    printf -- '-- %s\n' "$suite"
    out=$(mktemp)
    (
        case $suite in sdk-py) python_suite ;; langgraphjs) javascript_suite ;; esac
        # The server's name in its own words; everything in there ends with it.
        unshare --map-root-user --net --pid --fork --kill-child bash -c '
            ip link set lo up
            suite=$1; shift
            while [ "$1" != -- ]; do server+=("$1"); shift; done; shift
            "${server[@]}" --suite "$suite" --addr 127.0.0.1:2024 &
            for _ in $(seq 100); do curl --silent --fail --output /dev/null http://127.0.0.1:2024/ok && break; sleep 0.1; done
            "$@"
        ' _ "$suite" "${server[@]}" -- "${run[@]}" || true
    ) 2>&1 | tee "$out"
    case $suite in
        sdk-py) failed=$(sed -n 's/^\(FAILED\|ERROR\) \([^ ]*\).*/\2/p' "$out" | sort -u) ;;
        langgraphjs) failed=$(sed -n 's/^ FAIL  tests\/api.test.mts > //p' "$out" | sort -u) ;;
    esac
    grep --quiet --extended-regexp '[0-9]+ passed' "$out" || { echo "the suite did not run" >&2; exit 1; }
    rm "$out"
    new=$(comm -23 <(printf '%s\n' "$failed" | sort -u) <(known "$suite" | sort -u) | sed '/^$/d')
    if [ -n "$new" ]; then
        printf 'fail, and docs/server.md does not say why:\n%s\n' "$new" >&2
        exit 1
    fi
done
