# Creates a project of each kind with `hier new` and follows its README: builds, tests, runs, draws. The projects depend on this
# checkout and have its lock file, so that cargo reuses compiled crates. Then builds a project as a user of the registry would, against
# the packages of a release.
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

step "a project that depends on the packages of a release"
# A directory source in place of the registry: other people's crates, and ours as `cargo package` makes them.
cd "$root"
cargo vendor --quiet --locked --versioned-dirs "$scratch/registry" >/dev/null
packages
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
for package in "$target"/package/hier-*-"$version".crate; do
    tar --extract --gzip --file "$package" --directory "$scratch/registry"
    printf '{"files":{},"package":"%s"}' "$(sha256sum "$package" | cut -d ' ' -f 1)" >"$scratch/registry/$(basename "$package" .crate)/.cargo-checksum.json"
done
cd "$scratch"
mkdir released
printf '[source.crates-io]\nreplace-with = "packages"\n[source.packages]\ndirectory = "%s"\n' "$scratch/registry" >released/config.toml
"$hier" new released/desk --kind graph --path "$root"
sed --in-place "s|path = [^,]*|version = \"$version\"|" released/desk/Cargo.toml
cd released/desk
export CARGO_TARGET_DIR=$target/released
env --unset CI cargo test --quiet --offline --config ../config.toml
! grep --quiet "$root" Cargo.lock || die "the project depends on the checkout"

step "the forms of the dependency in which the macros find hier"
mkdir -p ../hier/src ../form/src ../form/tests
printf '[package]\nname = "hier"\nversion = "0.2.0"\nedition = "2024"\n[workspace]\n' >../hier/Cargo.toml
touch ../hier/src/lib.rs
ours="version = \"$version\", default-features = false"
# form NAME FILE LIBRARY DEPENDENCIES: checks the project's graph in FILE of a crate with these dependencies, which call the library LIBRARY.
form() {
    part "$1"
    rm --force ../form/src/* ../form/tests/*
    touch ../form/src/lib.rs
    sed "s/\bhier::/$3::/g" src/lib.rs >"../form/$2"
    printf '[package]\nname = "form"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[workspace.dependencies]\ngraphs = { package = "hier-graph", %s }\n[dependencies]\nserde = { version = "1", features = ["derive"] }\n%b\n' \
        "$ours" "$4" >../form/Cargo.toml
    cargo check --quiet --offline --tests --manifest-path ../form/Cargo.toml --config ../config.toml
}
form "for one platform" src/lib.rs hier "[target.'cfg(unix)'.dependencies]\nhier-graph = { $ours }"
form "for tests" tests/graph.rs hier "[dev-dependencies]\nhier-graph = { $ours }"
form "renamed in the workspace, next to the foreign hier" src/lib.rs graphs 'graphs.workspace = true\nhier = { path = "../hier" }'
form "next to the foreign hier under another name" src/lib.rs hier "hier-graph = { $ours }\ntree = { package = \"hier\", path = \"../hier\" }"
