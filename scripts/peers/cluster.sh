# Runs the tests of hier-restate and the example `cluster` with a Restate server.
if [ "${1:-}" != beside ]; then
    build --example cluster
    ./scripts/restate.sh with ./scripts/peers.sh cluster beside
    return
fi

# Names the packages, so that compiled artifacts are reused.
cargo test --locked --workspace --all-features --test cluster -- --include-ignored --skip child_process --skip one_node_of_three

run() { "$built/examples/cluster" run --ingress "$HIER_TEST_RESTATE" --thread t1 --rounds 3 --width 4 --delay-ms 5; }
first() { run >"$scratch/first"; }
# Restate knows the graph only once the worker is registered.
serve worker first -- "$built/examples/cluster" worker --addr '127.0.0.1:{port}' --log "$scratch/tasks" --admin "$HIER_TEST_RESTATE_ADMIN"
run >"$scratch/second"
[ "$(cat "$scratch/first")" = '{"done":12,"rounds":[0,1,2]}' ] || die "the run returned $(cat "$scratch/first")"
cmp "$scratch/first" "$scratch/second"
[ "$(sort -u "$scratch/tasks" | wc -l)" = 12 ] && [ "$(wc -l <"$scratch/tasks")" = 12 ] || die "a task did not run exactly once"
