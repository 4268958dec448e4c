# Records new random scenarios with LangGraph for Python and replays them on the engine. A seed always gives the same scenarios: CI uses
# the default.
count=${1:-150}
seed=${2:-20261121000}
install_reference
fresh=$scratch/fresh
# record RECORDER KIND COUNT FOLDER: records in the background, because the nodes of the scenarios mostly wait.
recorders=()
record() {
    mkdir -p "$fresh/$4"
    # The recorder writes its warnings to stderr, too.
    {
        "$HIER_REFERENCE_PYTHON" "tests/conformance/$1.py" "$2" "$seed" "$3" "$fresh/$4" >/dev/null 2>"$scratch/$4" \
            || { cat "$scratch/$4" >&2; exit 1; }
    } &
    recorders+=("$!")
    at_exit end_process "$!"
}

echo "recording $count scenarios of graphs, and half as many each of hierarchies, rare features and deep graphs, from seed $seed"
record record --random "$count" graphs
record record --wide $((count / 2)) wide
record record --deep $((count / 2)) deep
record record_hierarchy --random $((count / 2)) hierarchies
for recorder in "${recorders[@]}"; do wait "$recorder"; done
"$HIER_REFERENCE_PYTHON" tests/conformance/filter.py "$fresh/graphs" "$fresh/wide" "$fresh/hierarchies"
build --bins --examples
"$built/hier-conformance" "$fresh"
