#!/usr/bin/env bash
# Compares hier with other programs, which are installed into .tools/. `cargo bench` has the other benches.
#
#   scripts/bench.sh NAME [ARGUMENT…]
#
#   cluster [--nodes N] [PART…]   supersteps on Restate, compared with hand-written handlers: pairs, crowd, speedup, memory, model
#   compile-time                  `cargo check` of programs with one graph of 0, 10, 100 and 400 nodes
#   langgraph                     the same workloads here and on LangGraph for Python
#   server                        the server, compared with LangGraph's development server
#   tax-filing                    the same hierarchy here and on langgraph-hierarchies
#   temporal                      supersteps on Restate, compared with Temporal's development server
set -euo pipefail
. "$(dirname "$0")/lib.sh"

run_part bench "$@"
