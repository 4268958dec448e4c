#!/usr/bin/env bash
# Runs the checks of the project: format, lints, docs, tests. Needs a stable Rust toolchain; Postgres and pgbouncer are installed if
# they are missing (apt-get), and with --all the needs of other people's programs, too.
#
#   scripts/test.sh          the checks that a change must pass
#   scripts/test.sh --all    also the tests against other people's programs, which are installed into .tools/
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"

all=false
case "${1:-}" in
    "") ;;
    --all) all=true ;;
    *) usage ;;
esac
make_scratch

# The size in GB that a run needs in cargo's target folder and .tools/. Data of an earlier run counts for at most three
# quarters of it, since not all of it is reused.
needed=12
! $all || needed=20
mkdir -p "$target" "$tools"
taken=$(du --summarize --total --block-size=1G "$target" "$tools" | sed -n 's/\ttotal$//p')
free=$(df --output=avail --block-size=1G "$target" | tail -1 | tr -d ' ')
[ "$free" -ge $((needed - taken > needed / 4 ? needed - taken : needed / 4)) ] || die "the disk has $free GB free, and the run needs \
$needed GB in $target and $tools, which have $taken GB: free some with \`cargo clean\`, or set CARGO_TARGET_DIR to a folder on another disk"

command -v cargo >/dev/null || die "cargo is not installed: see https://rustup.rs"
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    step "installing rustfmt and clippy"
    rustup component add rustfmt clippy
fi

# Incremental data would fill the disk, and each crate is compiled only once.
export CARGO_INCREMENTAL=0

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --all-features --locked -- --deny warnings
# Tests that run only if they are named are not among all targets.
cargo clippy --workspace --all-features --locked --test accepted --test cluster --test editors --test servers -- --deny warnings

step "docs"
# With all features, as docs.rs builds them.
RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --all-features --no-deps --locked

step "packages"
# The files that a release would upload; the tests below compile them.
packages

[ -n "$(compgen -G '/usr/lib/postgresql/*/bin')" ] || need initdb postgresql
[ -x /usr/sbin/pgbouncer ] || need pgbouncer pgbouncer

step "tests, with a Postgres of their own"
cargo test --workspace --all-features --locked --tests --no-run
# Most tests wait, and these mostly compile.
beside refused nice -n 19 cargo test --quiet --workspace --all-features --locked --test refused
beside docs nice -n 19 cargo test --quiet --workspace --all-features --locked --doc
beside precise nice -n 19 env CARGO_TARGET_DIR=target/precise cargo test --quiet --manifest-path tests/precise/Cargo.toml --locked
! $all || beside hygiene nice -n 19 ./scripts/hygiene.sh
./scripts/postgres.sh test --workspace --all-features --locked --tests -- --skip programs_are_refused

step "programs that must not compile"
finish refused
step "examples of the docs"
finish docs
step "tests, with features of serde_json that other crates may switch on"
finish precise

step "examples"
./scripts/examples.sh

if $all; then
    # Not at a low priority, because their programs have deadlines.
    beside cluster ./scripts/peers.sh cluster
    beside fresh ./scripts/peers.sh fresh-scenarios

    step "new projects"
    ./scripts/peers.sh new-projects

    step "real model servers"
    # Names the packages, so that compiled artifacts are reused.
    ./scripts/peers.sh llm cargo test --workspace --all-features --locked --test servers -- --ignored

    step "the Model Context Protocol's own suite, and its clients and servers"
    ./scripts/peers.sh mcp

    step "the clients of LangGraph's server, and its own tests"
    ./scripts/peers.sh clients
    ./scripts/peers.sh suites

    step "the studio in Chromium"
    ./scripts/peers.sh studio

    step "AG-UI, with the protocol's own client and validator"
    ./scripts/peers.sh agui

    step "graphs on a Restate cluster"
    finish cluster

    step "fresh scenarios of the reference"
    finish fresh

    step "spelling, the book, each feature by itself, the public API, 100,000 random graphs, a project that depends on packages of a \
release"
    finish hygiene
fi

step "everything passed"
