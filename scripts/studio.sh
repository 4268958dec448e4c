#!/usr/bin/env bash
# Tests the studio in a real Chromium, and takes its pictures into target/studio/. Installs what is missing: Debian's chromium
# (apt-get), and the driver playwright-core into .tools/ (npm, which needs Node 18 or newer).
#
#   scripts/studio.sh            all tests
#   scripts/studio.sh NAME       those whose names contain this
#   scripts/studio.sh --picture  only docs/studio.png
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
packages=()
command -v chromium >/dev/null || packages+=(chromium)
command -v npm >/dev/null || packages+=(nodejs npm)
if [ "${#packages[@]}" != 0 ]; then
    as_root apt-get update --quiet
    as_root apt-get install --yes --no-install-recommends "${packages[@]}"
fi

export STUDIO_TOOLS="$PWD/.tools/studio" STUDIO_PICTURES="${CARGO_TARGET_DIR:-$PWD/target}/studio"
CHROMIUM=$(command -v chromium)
export CHROMIUM
if ! grep --quiet --no-messages '"version": "1.65.0"' "$STUDIO_TOOLS/node_modules/playwright-core/package.json"; then
    mkdir -p "$STUDIO_TOOLS"
    npm install --silent --no-save --prefix "$STUDIO_TOOLS" playwright-core@1.65.0
fi

# As the tests have compiled them: then there is nothing to compile.
cargo build --quiet --locked --workspace --all-features --bin hier --example studio
built="${CARGO_TARGET_DIR:-target}/debug"
if [ "${1:-}" = --picture ]; then
    node hier-server/tests/studio/picture.mjs "$built/examples/studio" docs/studio.png
else
    node hier-server/tests/studio/main.mjs "$built/examples/studio" "$built/hier" "${1:-}"
fi
