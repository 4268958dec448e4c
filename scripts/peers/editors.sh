# Drives rust-analyzer over a program with `graph!`: completion, renames, definitions and hovers.
#
# It is installed with a toolchain of the compiler's version, since it loads the macros, and the sources of the standard library. The
# machine's own toolchain is not changed, because those sources change the compiler's messages.
if [ -z "${HIER_TEST_RUST_ANALYZER:-}" ]; then
    version=$(rustc -vV | sed -n 's/^release: //p')
    export RUSTUP_HOME="$tools/rustup" RUSTUP_TOOLCHAIN="$version"
    rustup toolchain install "$version" --no-self-update --profile minimal --component rust-analyzer --component rust-src || {
        printf '\n*** SKIPPED: there is no rust-analyzer, and rustup cannot install it ***\n\n' >&2
        exit 0
    }
    HIER_TEST_RUST_ANALYZER=$(rustup which rust-analyzer)
fi
export HIER_TEST_RUST_ANALYZER
cargo test --locked --package hier-editors --test editors -- --ignored
