#!/usr/bin/env bash
# Drives rust-analyzer over a program with `graph!`: what completes, renames, jumps and hovers in an editor.
#
# The rust-analyzer of the toolchain is taken, and installed if it is missing (rustup component add); HIER_TEST_RUST_ANALYZER
# names another. It and the macros must be of one compiler: it loads them.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${HIER_TEST_RUST_ANALYZER:-}" ]; then
    if ! rustup which rust-analyzer >/dev/null 2>&1 || ! [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
        echo "installing rust-analyzer and the sources of the standard library"
        rustup component add rust-analyzer rust-src || {
            printf '\n*** SKIPPED: there is no rust-analyzer, and rustup cannot install it ***\n\n' >&2
            exit 0
        }
    fi
    HIER_TEST_RUST_ANALYZER=$(rustup which rust-analyzer)
fi
export HIER_TEST_RUST_ANALYZER
cargo test --locked --package hier-editors
