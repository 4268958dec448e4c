#!/usr/bin/env bash
# Asks our server and the reference's development server for runs of a graph of one node, in turns, with the same load generator, and
# prints how many each does in a second. The reference is installed into .tools/ (ignored by git).
set -euo pipefail
cd "$(dirname "$0")/.."

home=$PWD/.tools/dev-server
if ! [ -x "$home/bin/langgraph" ]; then
    echo "installing the reference's development server into $home" >&2
    python3 -m venv "$home"
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check "langgraph-cli[inmem]==0.4.40" langgraph-api==0.16.7
fi

# As the tables in docs/benchmarks.md: without link-time optimization, which takes minutes. Built before the clock runs.
export CARGO_PROFILE_BENCH_LTO=off CARGO_PROFILE_BENCH_CODEGEN_UNITS=16
load() { cargo bench --quiet --locked --package hier-server --all-features --bench load -- wait "$@"; }
cargo bench --quiet --locked --package hier-server --all-features --bench load --no-run

folder=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap stop EXIT
cat >"$folder/one.py" <<'PYTHON'
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class Line(TypedDict):
    n: int


async def add(line: Line) -> Line:
    return {"n": line["n"] + 1}


one = StateGraph(Line).add_node(add).add_edge(START, "add").add_edge("add", END).compile()
PYTHON
echo '{"graphs": {"one": "./one.py:one"}, "dependencies": ["."]}' >"$folder/langgraph.json"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(cd "$folder" && exec "$home/bin/langgraph" dev --no-browser --no-reload --host 127.0.0.1 --port "$port" --n-jobs-per-worker 64) \
    </dev/null >"$folder/log" 2>&1 &
server=$!
for _ in $(seq 120); do
    ! curl --silent --fail --max-time 5 "http://127.0.0.1:$port/ok" >/dev/null || break
    kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
    sleep 1
done

for turn in 1 2; do
    echo "turn $turn"
    echo "  reference: $(load --seconds 10 --addr "127.0.0.1:$port")"
    echo "  reference: $(load --seconds 10 --addr "127.0.0.1:$port" --durable yes)"
    echo "  hier:      $(load --seconds 5)"
    echo "  hier:      $(load --seconds 5 --db "sqlite:$folder/turn-$turn.db")"
done
