# Drives the server with the Python SDK and RemoteGraph, the JavaScript SDK and RemoteGraph, React's useStream (also in Chromium),
# AG-UI's client and connector, and CopilotKit.
program=$(realpath -m "${1:-$built/examples/compat_server}")
shift || true
[ -x "$program" ] || die "there is no $program: cargo build --package hier-server --all-features --example compat_server"

mapfile -t packages < <(grep -v '^#' hier-server/tests/clients/requirements.txt)
python_packages clients "${packages[@]}"
need chromium chromium
# Node looks for packages next to the program.
mkdir -p "$tools/clients"
cp hier-server/tests/clients/{*.mjs,package.json} "$tools/clients/"
npm_packages clients
with_python() { "$tools/clients/py/bin/python" "hier-server/tests/$1" "$program" "${@:2}"; }
with_node() { CHROMIUM=$(command -v chromium) node "$tools/clients/$1" "$program" "${@:2}"; }

part "langgraph-sdk of Python"
with_python sdk.py "$@"
part "RemoteGraph of Python"
with_python clients/remote_graph.py "$@"
part "@langchain/langgraph-sdk, and RemoteGraph of JavaScript"
with_node sdk.mjs "$@"
part "useStream of @langchain/langgraph-sdk and of @langchain/react"
with_node react.mjs "$@"
part "useStream of @langchain/react in Chromium"
with_node browser.mjs "$@"
part "tools in the client: @ag-ui/client, and CopilotKit"
with_node client_tools.mjs "$@"
part "@ag-ui/langgraph, and CopilotKit's runtime"
with_node connectors.mjs "$@"
part "the server is killed while it works"
# It always has a separate database.
with_python clients/kills.py --kills 30
