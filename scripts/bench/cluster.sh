nodes=()
if [ "${1:-}" = --nodes ]; then nodes=(--nodes "$2"); shift 2; fi
# Optimized, except for crates that take long to compile.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo build --quiet --locked --release -p hier-restate --example figures
./scripts/restate.sh with "${nodes[@]}" "$target/release/examples/figures" "$@"
