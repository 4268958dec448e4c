# Creates a project of each kind with `hier new` and follows its README: builds, tests, runs, draws. The projects depend on this
# checkout and have its lock file, so that cargo reuses compiled crates.
build --bins --examples
hier=$built/hier
cd "$scratch"
for kind in graph agent server; do
    "$hier" new "my-$kind" --kind "$kind" --path "$root"
done
# One workspace, so that shared dependencies are compiled once.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["my-graph", "my-agent", "my-server"]\n'
    sed -n '/^\[profile\.dev/,/^$/p' "$root/Cargo.toml"
} >Cargo.toml
cp "$root/Cargo.lock" .
export CARGO_TARGET_DIR=$target
# In CI, a missing `graph.lock` fails the test.
env --unset CI cargo test --quiet --offline --workspace

expect() { grep --quiet --fixed-strings -- "$1" out || { cat out; die "the output has no \`$1\`"; }; }
cargo run --quiet --offline --package my-graph -- 50 >out && expect accepted
echo Ada | cargo run --quiet --offline --package my-graph -- 500 >out && expect 'signed by Ada'
echo 'What is the weather in Rome?' | cargo run --quiet --offline --package my-agent >out && expect 'It is sunny in Rome.'
"$hier" graph --package my-graph >out && expect 'weigh'
"$hier" graph --package my-server --format svg >out && expect '<svg'
for kind in graph agent server; do
    "$hier" check --package "my-$kind" >out && expect 'nothing has changed'
done

serve my-server fetch 'http://127.0.0.1:{port}/ok' -- env LISTEN='127.0.0.1:{port}' "$built/my-server"
curl --silent --fail "http://127.0.0.1:$port/runs/wait" -H 'content-type: application/json' \
    -d '{"assistant_id": "assistant", "input": {"messages": [{"role": "user", "content": "What is the weather in Rome?"}]}}' >out
expect 'It is sunny in Rome.'
