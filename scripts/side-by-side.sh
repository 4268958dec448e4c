#!/usr/bin/env bash
# Runs the same workloads here and on the Python reference, in one run, and prints the ratios.
# The reference is installed into .tools/ (ignored by git).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/python.sh
HIER_REFERENCE_PYTHON="$PWD/$(reference_python)"
export HIER_REFERENCE_PYTHON
cargo bench --quiet --locked --package hier-tests --bench side_by_side
