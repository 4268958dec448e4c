#!/usr/bin/env bash
# Checks hier against programs of other projects. They are installed into .tools/ and from Debian, and run on loopback.
#
#   scripts/peers.sh NAME [ARGUMENT…]
#
#   agui                            AG-UI's validator and client
#   clients [PROGRAM [--db URL]]    the published clients of LangGraph's server; PROGRAM defaults to the example compat_server
#   cluster                         graphs on a Restate server; HIER_TEST_KILLS is the number of kills and defaults to 30
#   editors                         rust-analyzer, or the one that HIER_TEST_RUST_ANALYZER names, on a program with `graph!`
#   fresh-scenarios [COUNT [SEED]]  new random scenarios, recorded with LangGraph for Python
#   llm COMMAND…                    runs a command with two model servers: HIER_TEST_AIMOCK, HIER_TEST_LLAMA
#   mcp                             the conformance suite of the Model Context Protocol, fastmcp, and the reference server
#   new-projects                    the projects that `hier new` creates
#   studio [NAME | --picture]       the studio in Chromium: all tests, those whose name contains NAME, or the picture of the docs
#   suites [SUITE] [-- --db URL]    LangGraph's own tests of its server, sdk-py and langgraphjs, from checkouts in HIER_SUITES
set -euo pipefail
. "$(dirname "$0")/lib.sh"

run_part peers "$@"
