#!/usr/bin/env bash
# Compares the public API with the last release, and fails if the version is too small for the changes: before 1.0 a breaking change
# raises the second number, later the first.
#
#   scripts/semver.sh           compares with the newest tag v*, if any
#   scripts/semver.sh REVISION  compares with any revision, and ignores the version
#
# cargo-semver-checks knows more rules. It is not used, because with its 416 crates it takes many minutes to compile.
#
# It documents both with all features, like `scripts/hygiene.sh api`. The older one is in .tools/semver, and takes minutes the first time.
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
# shared one, cargo would confuse the crates of the two, whose files are not newer.
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
# Versions are compatible for cargo if they share the first number that is not zero.
compatible() { sed -E 's/^v//; s/^(0\.[0-9]+|[1-9][0-9]*)\..*/\1/' <<<"$1"; }
version=$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$(compatible "$version")" != "$(compatible "$tag")" ] || die "the version is $version, and $tag may be replaced by it: raise it"
