#!/usr/bin/env bash
# What supersteps on the cluster cost: the example `figures` of hier-restate beside a Restate server of its own.
#
#   scripts/figures.sh [--nodes N]             all of it
#   scripts/figures.sh [--nodes N] PART…       some of it: pairs, crowd, speedup, memory, model
#   scripts/figures.sh build                   compiles it, and no more
set -euo pipefail
cd "$(dirname "$0")/.."
nodes=()
if [ "${1:-}" = --nodes ]; then nodes=(--nodes "$2"); shift 2; fi
# Optimized, but for what takes long to compile.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo build --quiet --locked --release -p hier-restate --example figures
[ "${1:-}" = build ] || ./scripts/restate.sh with "${nodes[@]}" "${CARGO_TARGET_DIR:-target}/release/examples/figures" "$@"
