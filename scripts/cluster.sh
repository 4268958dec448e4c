#!/usr/bin/env bash
# Graphs on a Restate cluster: the tests of hier-restate, and the example `cluster`, beside a server of their own.
#
#   scripts/cluster.sh            HIER_TEST_KILLS says how many kills; 30 unless it does
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != beside ]; then
    # As the tests have compiled it: then there is nothing to compile.
    cargo build --quiet --locked --workspace --all-features --example cluster
    exec ./scripts/restate.sh with "$0" beside
fi

# Named so that what is compiled already is used.
cargo test --locked --workspace --all-features --test cluster

example=${CARGO_TARGET_DIR:-target}/debug/examples/cluster
scratch=$(mktemp -d)
# Below the ports that the system gives to connections, and not one that Restate has.
for _ in $(seq 100); do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done
"$example" worker --addr "127.0.0.1:$port" --log "$scratch/log" --admin "$HIER_TEST_RESTATE_ADMIN" &
worker=$!
trap 'kill "$worker" 2>/dev/null || true; rm -rf "$scratch"' EXIT
run() { "$example" run --ingress "$HIER_TEST_RESTATE" --thread t1 --rounds 3 --width 4 --delay-ms 5; }
# Until the worker is registered there is no graph of this name.
for _ in $(seq 300); do run >"$scratch/first" 2>"$scratch/said" && break; sleep 0.1; done
cat "$scratch/said" >&2
run >"$scratch/second"
[ "$(cat "$scratch/first")" = '{"done":12,"rounds":[0,1,2]}' ] || { cat "$scratch/first" >&2; exit 1; }
cmp "$scratch/first" "$scratch/second"
[ "$(sort -u "$scratch/log" | wc -l)" = 12 ] && [ "$(wc -l <"$scratch/log")" = 12 ]
