# Records new random scenarios with LangGraph for Python and replays them on the engine. A seed always gives the same scenarios: CI uses
# the default.
count=${1:-150}
seed=${2:-20261121000}
install_reference
# The recorder writes its warnings to stderr, too.
record() {
    "$HIER_REFERENCE_PYTHON" "tests/conformance/$1.py" "${@:2}" 2>"$scratch/warnings" || { cat "$scratch/warnings" >&2; exit 1; }
}

echo "recording $count scenarios of graphs, and half as many each of hierarchies, rare features and deep graphs, from seed $seed"
mkdir -p "$scratch"/fresh/{graphs,wide,deep,hierarchies}
fresh=$scratch/fresh
record record --random "$seed" "$count" "$fresh/graphs"
record record --wide "$seed" $((count / 2)) "$fresh/wide"
record record --deep "$seed" $((count / 2)) "$fresh/deep"
record record_hierarchy --random "$seed" $((count / 2)) "$fresh/hierarchies" >/dev/null
"$HIER_REFERENCE_PYTHON" tests/conformance/filter.py "$fresh/graphs" "$fresh/wide" "$fresh/hierarchies"
build --bins --examples
"$built/hier-conformance" "$fresh"
