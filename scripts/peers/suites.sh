# Runs LangGraph's own tests of its server against hier's. No registry has them, so HIER_SUITES names a folder with checkouts of
# langchain-ai/langgraph (`langgraph`) and langchain-ai/langgraphjs (`langgraphjs`); docs/server.md has the results.
#
# The tests are not changed. One of them contains the address of its server, localhost:2024, so each suite runs in a separate network.
if [ -z "${HIER_SUITES:-}" ]; then
    echo "LangGraph's own suites are skipped: HIER_SUITES does not name a folder with their checkouts"
    return
fi
suites=(sdk-py langgraphjs)
case "${1:-}" in
    sdk-py | langgraphjs) suites=("$1"); shift ;;
esac
[ "${1:-}" != -- ] || shift
server=("$built/examples/compat_server" "$@")

# The tests that cannot pass. A suite passes if no other test fails.
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

# Both install a suite, go to its folder, and set the command that runs it.
python_suite() {
    mapfile -t packages < <(grep -v '^#' hier-server/tests/clients/requirements.txt)
    python_packages suites "${packages[@]}" pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0
    cd "$HIER_SUITES/langgraph/libs/sdk-py"
    run=("$tools/suites/py/bin/python" -m pytest -m integration tests/integration -p no:cacheprovider --timeout 60 -q -rfE)
}

javascript_suite() {
    local from=$HIER_SUITES/langgraphjs/libs/langgraph-api folder=$tools/suites
    # The packages that the suite names, as far as the file needs them.
    mkdir -p "$folder/tests"
    echo '{"private": true, "type": "module"}' >"$folder/package.json"
    npm_packages suites @langchain/core@1.3.4 @langchain/langgraph@1.7.3 @langchain/langgraph-sdk@1.15.0 postgres@3.4.5 \
        vitest@4.1.10 wait-port@1.1.0
    cp "$from"/tests/{api.test,utils,schema-expectations}.mts "$folder/tests/"
    cp "$from/vitest.config.js" "$folder/"
    cd "$folder"
    run=(npx vitest run tests/api.test.mts --reporter=verbose --no-color)
}

# in_network LIB SUITE SERVER… -- COMMAND…: runs the suite's command next to the server; every process in the network ends with it.
# shellcheck disable=SC2016
in_network() {
    unshare --map-root-user --net --pid --fork --kill-child bash -c '
        . "$1/scripts/lib.sh"
        suite=$2 server=()
        shift 2
        while [ "$1" != -- ]; do server+=("$1"); shift; done
        shift
        ip link set lo up
        "${server[@]}" --suite "$suite" --addr 127.0.0.1:2024 &
        await "the server" $! fetch http://127.0.0.1:2024/ok
        "$@"
    ' _ "$root" "$@"
}

for suite in "${suites[@]}"; do
    part "$suite"
    (
        case $suite in sdk-py) python_suite ;; langgraphjs) javascript_suite ;; esac
        in_network "$suite" "${server[@]}" -- "${run[@]}" || true
    ) 2>&1 | tee "$scratch/out"
    case $suite in
        sdk-py) failed=$(sed -n 's/^\(FAILED\|ERROR\) \([^ ]*\).*/\2/p' "$scratch/out" | sort -u) ;;
        langgraphjs) failed=$(sed -n 's/^ FAIL  tests\/api.test.mts > //p' "$scratch/out" | sort -u) ;;
    esac
    grep --quiet --extended-regexp '[0-9]+ passed' "$scratch/out" || die "the suite did not run"
    new=$(comm -23 <(printf '%s\n' "$failed" | sort -u) <(known "$suite" | sort -u) | sed '/^$/d')
    [ -z "$new" ] || die "these tests fail, and docs/server.md does not say why: $new"
done
