#!/usr/bin/env bash
# Records new random scenarios with the Python reference and holds the engine to them.
#
#   scripts/fresh-scenarios.sh [COUNT] [SEED]
#
# The reference is installed into .tools/ (ignored by git). The same seed gives the same scenarios: CI uses the default,
# look further with another.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-150}
seed=${2:-20261121000}

. scripts/python.sh
python=$(reference_python)
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
echo "recording $count scenarios of graphs, and half as many of hierarchies and of what those seldom have, from seed $seed"
mkdir "$fresh/graphs" "$fresh/wide" "$fresh/hierarchies"
"$python" tests/conformance/record.py --random "$seed" "$count" "$fresh/graphs" 2>/dev/null
"$python" tests/conformance/record.py --wide "$seed" $((count / 2)) "$fresh/wide" 2>/dev/null
"$python" tests/conformance/record_hierarchy.py --random "$seed" $((count / 2)) "$fresh/hierarchies" >/dev/null 2>&1
"$python" tests/conformance/filter.py "$fresh/graphs" "$fresh/wide" "$fresh/hierarchies"
# As the tests have compiled it, beside which dependencies have other features: then there is nothing to compile.
cargo build --quiet --locked --workspace --all-features --bins --examples
"${CARGO_TARGET_DIR:-target}/debug/hier-conformance" "$fresh"
