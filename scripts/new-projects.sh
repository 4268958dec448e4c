#!/usr/bin/env bash
# Makes a project of each kind with `hier new`, and does with it what its README says: builds, tests, runs, draws. The projects
# depend on this checkout, and have its lock file: what is compiled already is used again.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}

# As the tests have compiled it, beside which dependencies have other features: then there is nothing to compile.
cargo build --quiet --locked --workspace --all-features --bins --examples
hier=$target/debug/hier
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for kind in graph agent server; do
    "$hier" new "my-$kind" --kind "$kind" --path "$root"
done
# One workspace, so that what they share is compiled once.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["my-graph", "my-agent", "my-server"]\n'
    sed -n '/^\[profile\.dev/,/^$/p' "$root/Cargo.toml"
} >Cargo.toml
cp "$root/Cargo.lock" .
export CARGO_TARGET_DIR=$target
cargo test --quiet --offline --workspace

expect() { grep --quiet --fixed-strings -- "$1" out || { cat out; echo "new-projects: no \`$1\`" >&2; exit 1; }; }
cargo run --quiet --offline --package my-graph -- 50 >out && expect accepted
echo Ada | cargo run --quiet --offline --package my-graph -- 500 >out && expect 'signed by Ada'
echo 'What is the weather in Rome?' | cargo run --quiet --offline --package my-agent >out && expect 'It is sunny in Rome.'
"$hier" graph --package my-graph >out && expect 'weigh'
"$hier" graph --package my-server --format svg >out && expect '<svg'

# Below the ports that the system gives to connections; another one if this is taken.
for _ in $(seq 20); do
    address=127.0.0.1:$((20000 + RANDOM % 12000))
    LISTEN=$address "$target/debug/my-server" >server.log 2>&1 &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
    # What answers at the address is this server as long as it lives: two cannot listen there.
    for _ in $(seq 1200); do
        ! curl --silent --fail "http://$address/ok" >/dev/null || break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    ! kill -0 "$server" 2>/dev/null || break
done
kill -0 "$server" 2>/dev/null || { cat server.log; echo "new-projects: my-server does not serve" >&2; exit 1; }
curl --silent --fail "http://$address/runs/wait" -H 'content-type: application/json' \
    -d '{"assistant_id": "assistant", "input": {"messages": [{"role": "user", "content": "What is the weather in Rome?"}]}}' >out
expect 'It is sunny in Rome.'
