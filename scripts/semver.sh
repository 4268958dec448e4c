#!/usr/bin/env bash
# Compares the public API with that of the last release, and fails if the version is too small for what broke: before 1.0 a breaking change
# raises the second number, after it the first.
#
#   scripts/semver.sh           since the newest tag v*; without one there is nothing to compare with
#   scripts/semver.sh REVISION  since that one, whatever the version is
#
# cargo-semver-checks knows more rules. It is not used, because with its 416 crates it takes many minutes to compile.
#
# It documents both with all features, as `scripts/hygiene.sh api` does: the older one in .tools/semver, which takes minutes the first time.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"

tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
revision=${1:-$tag}
[ -n "$revision" ] || { echo "there is no release yet: nothing to compare with"; exit 0; }
revision=$(git rev-parse --verify --short "$revision^{commit}")

home=$tools/semver
mkdir -p "$home"
make_scratch
# document CHECKOUT FOLDER TARGET: writes the documentation of a checkout into FOLDER. Each checkout has its own target folder: in a
# shared one, cargo would take the crates of one for those of the other, whose files are not newer.
document() {
    (cd "$1" && CARGO_TARGET_DIR=$3 rustdoc_json "${libraries[@]/#/--package=}")
    rm -rf "$2" && mkdir "$2"
    for package in "${libraries[@]/hier-graph/hier}"; do
        cp "$3/doc/${package//-/_}.json" "$2"
    done
}
if [ ! -d "$home/$revision" ]; then
    at_exit git worktree remove --force "$home/checkout"
    git worktree add --quiet --force --detach "$home/checkout" "$revision"
    document "$home/checkout" "$home/$revision.part" "$home/target"
    mv "$home/$revision.part" "$home/$revision"
fi
document . "$home/present" "$target"

status=0
cargo run --quiet --locked --package hier-layers --bin public-changes -- "$home/$revision" "$home/present" || status=$?
[ "$status" = 1 ] && [ -z "${1:-}" ] || exit "$status"
# The versions that cargo may choose for a program which asks for this one share its first number that is not zero.
compatible() { sed -E 's/^v//; s/^(0\.[0-9]+|[1-9][0-9]*)\..*/\1/' <<<"$1"; }
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$(compatible "$version")" != "$(compatible "$tag")" ] || die "the version is $version, and $tag may be replaced by it: raise it"
