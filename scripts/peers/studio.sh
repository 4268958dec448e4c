# Tests the studio in Chromium and takes pictures into target/studio/. The driver, playwright-core, needs Node 18 or newer.
need chromium chromium
npm_packages studio playwright-core@1.65.0
CHROMIUM=$(command -v chromium)
export CHROMIUM STUDIO_TOOLS="$tools/studio" STUDIO_PICTURES="$target/studio"

build --bin hier --example studio
if [ "${1:-}" = --picture ]; then
    node hier-server/tests/studio/picture.mjs "$built/examples/studio" docs/studio.png
else
    node --test hier-server/tests/studio/live.mjs
    node hier-server/tests/studio/main.mjs "$built/examples/studio" "$built/hier" "${1:-}"
fi
