#!/usr/bin/env bash
# Runs the same tax filing here and on langgraph-hierarchies, in one run: the same hierarchy, the same scripted model.
# Takes a minute or two, which the reference needs. It is installed into .tools/ (ignored by git).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/python.sh
HIER_REFERENCE_PYTHON="$PWD/$(reference_python)"
export HIER_REFERENCE_PYTHON
if ! "$HIER_REFERENCE_PYTHON" -c 'import langgraph.checkpoint.sqlite' 2>/dev/null; then
    "$HIER_REFERENCE_PYTHON" -m pip install --quiet --disable-pip-version-check langgraph-checkpoint-sqlite==3.1.2 >&2
fi
cargo bench --quiet --locked --package hier-tests --bench tax_filing
