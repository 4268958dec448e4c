# Sends runs of a graph of one node to hier's server and to LangGraph's development server, alternately and with the same load generator.
python_packages dev-server 'langgraph-cli[inmem]==0.4.40' langgraph-api==0.16.7

# Builds before the measurement, without link-time optimization, like the tables in docs/benchmarks.md.
export CARGO_PROFILE_BENCH_LTO=off CARGO_PROFILE_BENCH_CODEGEN_UNITS=16
load() { cargo bench --quiet --locked --package hier-server --all-features --bench load -- wait "$@"; }
cargo bench --quiet --locked --package hier-server --all-features --bench load --no-run

cp scripts/bench/one_node.py "$scratch/"
echo '{"graphs": {"one": "./one_node.py:one"}, "dependencies": ["."]}' >"$scratch/langgraph.json"
serve langgraph fetch 'http://127.0.0.1:{port}/ok' -- env --chdir="$scratch" "$tools/dev-server/py/bin/langgraph" dev \
    --no-browser --no-reload --host 127.0.0.1 --port '{port}' --n-jobs-per-worker 64

for turn in 1 2; do
    echo "turn $turn"
    echo "  LangGraph: $(load --seconds 10 --addr "127.0.0.1:$port")"
    echo "  LangGraph: $(load --seconds 10 --addr "127.0.0.1:$port" --durable yes)"
    echo "  hier:      $(load --seconds 5)"
    echo "  hier:      $(load --seconds 5 --db "sqlite:$scratch/turn-$turn.db")"
done
