#!/usr/bin/env bash
# Drives the server with the published clients of LangGraph's server: the Python SDK and RemoteGraph, the JavaScript SDK and RemoteGraph,
# React's useStream (also in a real Chromium), AG-UI's connector and CopilotKit's runtime. They are installed into .tools/, Chromium
# with apt-get.
#
#   scripts/clients.sh [PROGRAM [--db URL]]      the program is target/debug/examples/compat_server unless given
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-${CARGO_TARGET_DIR:-target}/debug/examples/compat_server}
shift || true
case $program in /*) ;; *) program=$PWD/$program ;; esac
[ -x "$program" ] || { echo "there is no $program: cargo build --package hier-examples --example compat_server" >&2; exit 1; }

step() { printf -- '-- %s\n' "$*"; }

python=.tools/clients-py
[ -x "$python/bin/python" ] || python3 -m venv "$python"
"$python/bin/pip" install --quiet --requirement hier-server/tests/clients/requirements.txt

packages=()
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then packages+=(nodejs npm); fi
command -v chromium >/dev/null || packages+=(chromium)
if [ "${#packages[@]}" != 0 ]; then
    install=(apt-get install --yes --no-install-recommends "${packages[@]}")
    if [ "$(id -u)" = 0 ]; then apt-get update --quiet && "${install[@]}"; else sudo apt-get update --quiet && sudo "${install[@]}"; fi
fi
node=.tools/clients
mkdir -p "$node"
# The programs run where their packages are: node looks for those beside them.
cp hier-server/tests/clients/*.mjs "$node/"
if ! cmp --silent hier-server/tests/clients/package.json "$node/package.json"; then
    cp hier-server/tests/clients/package.json "$node/package.json"
    npm install --prefix "$node" --no-audit --no-fund --loglevel error || { rm "$node/package.json"; exit 1; }
fi

step "langgraph-sdk of Python"
"$python/bin/python" hier-server/tests/sdk.py "$program" "$@"
step "RemoteGraph of Python"
"$python/bin/python" hier-server/tests/clients/remote_graph.py "$program" "$@"
step "@langchain/langgraph-sdk, and RemoteGraph of JavaScript"
node "$node/sdk.mjs" "$program" "$@"
step "useStream of @langchain/langgraph-sdk and of @langchain/react"
node "$node/react.mjs" "$program" "$@"
step "useStream of @langchain/react in Chromium"
CHROMIUM=$(command -v chromium) node "$node/browser.mjs" "$program" "$@"
step "@ag-ui/langgraph, and CopilotKit's runtime"
node "$node/connectors.mjs" "$program" "$@"
step "the server is killed while it works"
# The database is one of its own.
"$python/bin/python" hier-server/tests/clients/kills.py "$program" --kills 30
