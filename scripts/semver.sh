#!/usr/bin/env bash
# Says what has gone from the public API, or changed in it, since the last release, and fails if the version does not say so: before 1.0 the
# second number of a version that breaks something rises, after it the first.
#
#   scripts/semver.sh           since the newest tag v*; without one there is nothing to compare with
#   scripts/semver.sh REVISION  since that one, whatever the version is
#
# It documents both with all features, as `scripts/hygiene.sh api` does: the older one in .tools/semver, which takes minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(hier-spec hier-core hier-checkpoint hier-models hier-mcp hier-server hier-restate hier-testkit hier)
tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
revision=${1:-$tag}
[ -n "$revision" ] || { echo "there is no release yet: nothing to compare with"; exit 0; }
revision=$(git rev-parse --verify --short "$revision^{commit}")

home=$PWD/.tools/semver
mkdir -p "$home"
printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n' >"$home/rustdoc"
chmod +x "$home/rustdoc"
# The documentation of the checkout in this folder, into that one, compiled into a third. Each checkout has a target folder of its own: in one,
# the crates of one would be taken for those of the other, whose files are no newer.
document() {
    (
        cd "$1"
        RUSTDOC=$home/rustdoc RUSTDOCFLAGS="-Z unstable-options --output-format json" CARGO_TARGET_DIR=$3 \
            cargo doc --quiet --all-features --no-deps --lib --locked "${packages[@]/#/--package=}"
    )
    rm -rf "$2" && mkdir "$2"
    for package in "${packages[@]}"; do
        cp "$3/doc/${package//-/_}.json" "$2"
    done
}
if [ ! -d "$home/$revision" ]; then
    trap 'git worktree remove --force "$home/checkout" 2>/dev/null || true' EXIT
    git worktree add --quiet --force --detach "$home/checkout" "$revision"
    document "$home/checkout" "$home/$revision.part" "$home/target"
    mv "$home/$revision.part" "$home/$revision"
fi
document . "$home/present" "$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")"

status=0
cargo run --quiet --locked --package hier-layers --bin public-changes -- "$home/$revision" "$home/present" || status=$?
[ "$status" = 1 ] && [ -z "${1:-}" ] || exit "$status"
# What programs that ask for the released version may get instead of it: those of the same first number that is not zero.
compatible() { sed -E 's/^v//; s/^(0\.[0-9]+|[1-9][0-9]*)\..*/\1/' <<<"$1"; }
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$(compatible "$version")" != "$(compatible "$tag")" ] \
    || { echo "the version is $version, and $tag may be replaced by it: raise it" >&2; exit 1; }
