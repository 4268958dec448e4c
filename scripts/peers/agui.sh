# Runs PyPI's ag-ui-validate and npm's @ag-ui/client against the example `server`.
python_packages agui 'ag-ui-validate[transport]==0.4.0'
npm_packages agui @ag-ui/client@1.0.0 @ag-ui/core@1.0.0
validate() { "$tools/agui/py/bin/ag-ui-validate" "$1" --no-color; }

build --example server
serve server fetch 'http://127.0.0.1:{port}/ok' -- "$built/examples/server" --addr '127.0.0.1:{port}'
base=http://127.0.0.1:$port

# Live: the validator sends its own input.
validate "$base/agui/chat"
# Recorded: a question, its answer, and a run that fails.
record() {
    at_exit show_on_failure "$scratch/$2"
    curl --silent --fail-with-body --no-buffer "$base/agui/tax_desk" --header 'content-type: application/json' \
        --data "{$1, \"messages\": [], \"tools\": [], \"context\": []}" >"$scratch/$2"
}
record '"threadId": "case", "runId": "1", "state": {"income": 52000}' asked
question=$(sed -n 's/.*"interrupts":\[{"id":"\([^"]*\)".*/\1/p' "$scratch/asked")
[ -n "$question" ] || die "the graph asked nothing"
answer="{\"interruptId\": \"$question\", \"status\": \"resolved\", \"payload\": \"yes\"}"
record "\"threadId\": \"case\", \"runId\": \"2\", \"state\": {}, \"resume\": [$answer]" answered
record '"threadId": "bad", "runId": "1", "state": {"income": -1}' failed
for stream in asked answered failed; do validate "$scratch/$stream"; done
grep --quiet '"type":"RUN_ERROR"' "$scratch/failed"

# Node looks for packages next to the program.
cp hier-server/tests/agui.mjs "$tools/agui/"
node "$tools/agui/agui.mjs" "$base"
