#!/usr/bin/env bash
# Other people's programs judge how the server speaks AG-UI: PyPI's ag-ui-validate and npm's @ag-ui/client, installed into
# .tools/agui once. Needs Node 20 and Python 3.
#
#   scripts/agui.sh SERVER     the example `server`, compiled
set -euo pipefail
[ $# = 1 ] || { echo "usage: scripts/agui.sh SERVER" >&2; exit 2; }
server=$(realpath "$1")
cd "$(dirname "$0")/.."

home=.tools/agui
[ -x "$home/py/bin/ag-ui-validate" ] || {
    python3 -m venv "$home/py"
    "$home/py/bin/pip" install --quiet 'ag-ui-validate[transport]==0.4.0'
}
[ -d "$home/node_modules/@ag-ui/client" ] ||
    npm install --silent --no-audit --no-fund --no-save --prefix "$home" @ag-ui/client@1.0.0 @ag-ui/core@1.0.0

log=$(mktemp -d)
"$server" --addr 127.0.0.1:0 >"$log/server" 2>&1 &
pid=$!
stop() {
    local status=$?
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    [ "$status" = 0 ] || cat "$log"/*
    rm -rf "$log"
    exit "$status"
}
trap stop EXIT
for _ in $(seq 1200); do
    base=$(sed -n 's/^serving on \(http.*\)$/\1/p' "$log/server")
    [ -z "$base" ] || break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
[ -n "$base" ] || { echo "the server does not say where it serves" >&2; exit 1; }

# Live: the validator sends an input of its own.
"$home/py/bin/ag-ui-validate" "$base/agui/chat" --no-color
# Recorded: a question, and its answer.
record() { curl --silent --fail-with-body --no-buffer "$base/agui/$1" --header 'content-type: application/json' --data "$2"; }
input='"messages": [], "tools": [], "context": []'
record tax_desk "{\"threadId\": \"case\", \"runId\": \"1\", $input, \"state\": {\"income\": 52000}}" >"$log/asked"
question=$(sed -n 's/.*"interrupts":\[{"id":"\([^"]*\)".*/\1/p' "$log/asked")
[ -n "$question" ] || { echo "nothing was asked" >&2; exit 1; }
answer="[{\"interruptId\": \"$question\", \"status\": \"resolved\", \"payload\": \"yes\"}]"
record tax_desk "{\"threadId\": \"case\", \"runId\": \"2\", $input, \"state\": {}, \"resume\": $answer}" >"$log/answered"
record tax_desk "{\"threadId\": \"bad\", \"runId\": \"1\", $input, \"state\": {\"income\": -1}}" >"$log/failed"
for stream in asked answered; do
    "$home/py/bin/ag-ui-validate" "$log/$stream" --no-color
done
# A run that fails is told as the protocol has it, too.
"$home/py/bin/ag-ui-validate" "$log/failed" --no-color
grep --quiet '"type":"RUN_ERROR"' "$log/failed"

cp hier-server/tests/agui.mjs "$home/agui.mjs"
node "$home/agui.mjs" "$base"
