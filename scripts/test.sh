#!/usr/bin/env bash
# Runs the checks of the project: format, lints, docs, tests. Needs a stable Rust toolchain; Postgres and pgbouncer are installed if
# they are missing (apt-get), and with --all what the programs of other people need, too.
#
#   scripts/test.sh          what a change must pass
#   scripts/test.sh --all    also the tests against other people's programs, which are installed into .tools/
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
case "${1:-}" in
    "") ;;
    --all) all=true ;;
    *) echo "usage: scripts/test.sh [--all]" >&2; exit 2 ;;
esac

step() { printf '\n== %s\n' "$*"; }

command -v cargo >/dev/null || { echo "cargo is not installed: see https://rustup.rs" >&2; exit 1; }
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    step "installing rustfmt and clippy"
    rustup component add rustfmt clippy
fi

# Each crate is compiled once here: what the compiler keeps to compile a changed crate sooner would fill the disk, and takes time.
export CARGO_INCREMENTAL=0

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --all-features --locked -- --deny warnings

step "docs"
# With all features, as docs.rs builds them.
RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --all-features --no-deps --locked

step "packages"
# What a release would upload; the tests below compile it.
cargo package --quiet --no-verify --allow-dirty --locked \
    --package hier-spec --package hier-macros --package hier-core --package hier-checkpoint --package hier-models \
    --package hier-mcp --package hier-server --package hier-restate --package hier-testkit --package hier --package hier-cli

packages=()
ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1 || command -v initdb >/dev/null || packages+=(postgresql)
[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || packages+=(pgbouncer)
if [ "${#packages[@]}" != 0 ]; then
    step "installing ${packages[*]}"
    install=(apt-get install --yes --no-install-recommends "${packages[@]}")
    if [ "$(id -u)" = 0 ]; then
        apt-get update --quiet && "${install[@]}"
    else
        sudo apt-get update --quiet && sudo "${install[@]}"
    fi
fi

step "tests, with a Postgres of their own"
./scripts/postgres.sh with cargo test --workspace --all-features --locked

step "tests, with features of serde_json that other crates may switch on"
CARGO_TARGET_DIR=target/precise cargo test --manifest-path tests/precise/Cargo.toml --locked

# Runs an example, with what it needs on its command line. What it prints is shown if it fails.
run_example() {
    local name=$1
    shift
    timeout 120 "${CARGO_TARGET_DIR:-target}/debug/examples/$name" "$@" >"$scratch/out" 2>&1
}
example() {
    local name=$1
    case $name in
        approval)
            # It dies while it waits for the answer, as it says.
            ! run_example "$name" --db "sqlite:$scratch/approval.db" start \
                && run_example "$name" --db "sqlite:$scratch/approval.db" pending \
                && run_example "$name" --db "sqlite:$scratch/approval.db" answer yes \
                && grep --quiet paid "$scratch/out"
            ;;
        # A file by itself is a database, and the next process goes on with the conversation.
        chat)
            run_example "$name" --db "$scratch/chat.db" <<<hello \
                && run_example "$name" --db "$scratch/chat.db" <<<again \
                && ! run_example "$name" --db mysql://chat <<<hello \
                && grep --quiet '`mysql://chat` is no database: give a file' "$scratch/out"
            ;;
        server) run_example "$name" --selftest --allow-origin http://localhost:3000 ;;
        studio) run_example "$name" --selftest ;;
        # Needs a Restate server: scripts/cluster.sh drives it, with --all.
        cluster) ;;
        # Serves until it is stopped: the clients of LangGraph's server drive it, with --all.
        compat_server) ;;
        crash_target) run_example "$name" --db "sqlite:$scratch/crash.db" --thread t1 --log "$scratch/crash.log" ;;
        *) run_example "$name" ;;
    esac || { cat "$scratch/out"; exit 1; }
}

step "examples"
# As the tests have compiled them: then there is nothing to compile.
cargo build --quiet --locked --workspace --all-features --bins --examples
scratch=$(mktemp -d)
beside=
trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null || true; rm -rf "$scratch"' EXIT
for example in examples/*.rs examples/*/main.rs; do
    name=$(basename "${example%/main.rs}" .rs)
    printf -- '-- %s\n' "$name"
    example "$name"
done

if $all; then
    # It compiles and waits for nobody; those that follow wait for servers, browsers and people's answers more than they compute. It has
    # what they leave of the processors, and is shown when it is done.
    nice -n 19 ./scripts/hygiene.sh >"$scratch/hygiene" 2>&1 &
    beside=$!

    step "real model servers"
    # Named so that what is compiled already is used.
    ./scripts/llm.sh cargo test --workspace --all-features --locked --test servers

    step "the Model Context Protocol's own suite, and its clients and servers"
    ./scripts/mcp.sh

    step "new projects"
    ./scripts/new-projects.sh

    step "fresh scenarios of the reference"
    ./scripts/fresh-scenarios.sh

    step "the clients of LangGraph's server, and its own tests"
    ./scripts/clients.sh
    ./scripts/suites.sh

    step "graphs on a Restate cluster"
    ./scripts/cluster.sh

    step "the studio in Chromium"
    ./scripts/studio.sh

    step "AG-UI, with the protocol's own client and validator"
    ./scripts/agui.sh "${CARGO_TARGET_DIR:-target}/debug/examples/server"

    step "spelling, the book, each feature by itself, the public API: begun beside the others"
    status=0
    wait "$beside" || status=$?
    beside=
    cat "$scratch/hygiene"
    [ "$status" = 0 ] || exit "$status"
fi

step "everything passed"
