#!/usr/bin/env bash
# Runs every check of the project: format, lints, docs, tests. Needs a stable Rust toolchain and nothing else.
#
#   scripts/test.sh          what a change must pass
#   scripts/test.sh --all    also the tests against other people's programs, which are installed into .tools/
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
case "${1:-}" in
    "") ;;
    --all) all=true ;;
    *) echo "usage: scripts/test.sh [--all]" >&2; exit 2 ;;
esac

step() { printf '\n== %s\n' "$*"; }

command -v cargo >/dev/null || { echo "cargo is not installed: see https://rustup.rs" >&2; exit 1; }
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    step "installing rustfmt and clippy"
    rustup component add rustfmt clippy
fi

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- --deny warnings

step "docs"
RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked

step "tests"
cargo test --workspace --locked

step "examples"
for example in examples/*.rs; do
    name=$(basename "$example" .rs)
    printf -- '-- %s\n' "$name"
    timeout 120 cargo run --quiet --locked --package hier-examples --example "$name" >"${TMPDIR:-/tmp}/hier-example.$$" 2>&1 \
        || { cat "${TMPDIR:-/tmp}/hier-example.$$"; exit 1; }
done
rm -f "${TMPDIR:-/tmp}/hier-example.$$"

if $all; then
    step "fresh scenarios of the reference"
    ./scripts/fresh-scenarios.sh
fi

step "everything passed"
