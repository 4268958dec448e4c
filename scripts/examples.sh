#!/usr/bin/env bash
# Runs every example, with the arguments and the input it needs. The output of an example is shown if it fails.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
make_scratch

run() { timeout 120 "$built/examples/$name" "$@" >"$scratch/out" 2>&1; }
# shellcheck disable=SC2016
run_example() {
    case $name in
        approval)
            # It dies on purpose while it waits for the answer.
            ! run --db "sqlite:$scratch/approval.db" start \
                && run --db "sqlite:$scratch/approval.db" pending \
                && run --db "sqlite:$scratch/approval.db" answer yes \
                && grep --quiet paid "$scratch/out"
            ;;
        # A file is a database, and the next process continues the conversation.
        chat)
            run --db "$scratch/chat.db" <<<hello \
                && run --db "$scratch/chat.db" <<<again \
                && ! run --db mysql://chat <<<hello \
                && grep --quiet '`mysql://chat` is not a database: give a file' "$scratch/out"
            ;;
        support_desk)
            run --db "$scratch/desk.db" <<<dent.jpg && grep --quiet '30 euros are on their way' "$scratch/out"
            ;;
        # The second process asks the next question.
        research_desk)
            run --db "$scratch/research.db" \
                && run --db "$scratch/research.db" \
                && grep --quiet 'https://example.org/fresnel' "$scratch/out"
            ;;
        server) run --selftest --allow-origin http://localhost:3000 ;;
        studio) run --selftest ;;
        # Needs a Restate server: `scripts/peers.sh cluster` drives it.
        cluster) ;;
        crash_target) run --db "sqlite:$scratch/crash.db" --thread t1 --log "$scratch/crash.log" ;;
        *) run ;;
    esac
}

build --bins --examples
for example in examples/*.rs examples/*/main.rs; do
    name=$(basename "${example%/main.rs}" .rs)
    part "$name"
    run_example || { cat "$scratch/out"; exit 1; }
done
