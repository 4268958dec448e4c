#!/usr/bin/env bash
# A throwaway Restate server for tests, on free ports of the loopback address. It is installed into .tools/restate once (npm).
#
#   scripts/restate.sh with [--nodes N] COMMAND…   runs a command beside a new server, or a cluster of N nodes, then removes it
#   scripts/restate.sh start FOLDER [N]            starts the nodes in FOLDER, which is made if it is not there, and prints a line of
#                                                  `INGRESS ADMIN` for each
#   scripts/restate.sh stop FOLDER                 stops them
#   scripts/restate.sh crash FOLDER [NODE]         kills all of them, or one, as a crash would; `start` lets them recover, at the
#                                                  same addresses
#
# A command finds in its surroundings
#   HIER_TEST_RESTATE         the URL of the ingress (of the first node)
#   HIER_TEST_RESTATE_ADMIN   the URL of the admin API (of the first node)
#   HIER_TEST_RESTATE_FOLDER  the folder, for `crash` and `start`
#
# Needs Node and npm for the installation, and Linux or macOS on x64 or arm64.
set -euo pipefail
home=$(cd "$(dirname "$0")/.." && pwd)/.tools/restate
version=1.7.12

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

install() {
    local arch
    case $(uname -m) in x86_64) arch=x64 ;; *) arch=arm64 ;; esac
    package=@restatedev/restate-server-$(uname -s | tr '[:upper:]' '[:lower:]')-$arch
    server=$home/node_modules/$package/bin/restate-server
    [ -x "$server" ] && return
    command -v npm >/dev/null || { echo "npm is not installed, and Restate comes with it" >&2; exit 1; }
    echo "installing Restate $version into $home" >&2
    npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$home" "$package@$version" >&2
}

free_port() {
    for _ in $(seq 100); do
        # Below those that the system gives to connections.
        local port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    echo "no free port" >&2
    return 1
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The configuration of one node of several.
configure() {
    local folder=$1 node=$2 nodes=$3 fabric ingress admin
    fabric=$(free_port); ingress=$(free_port); admin=$(free_port)
    mkdir -p "$folder/$node"
    echo "$ingress $admin $fabric" >"$folder/$node/ports"
    local first
    first=$(cut -d' ' -f3 "$folder/1/ports")
    # Few partitions and small pools: it is to run beside a build on a small machine.
    cat >"$folder/$node/config.toml" <<TOML
node-name = "node-$node"
cluster-name = "hier-test"
auto-provision = $([ "$node" = 1 ] && echo true || echo false)
default-num-partitions = 4
default-replication = $([ "$nodes" -gt 2 ] && echo 2 || echo 1)
disable-telemetry = true
log-filter = "warn"
rocksdb-total-memory-size = "512.0 MiB"
bind-address = "127.0.0.1:$fabric"
advertised-address = "http://127.0.0.1:$fabric"
shutdown-timeout = "5s"

[metadata-client]
addresses = ["http://127.0.0.1:$first"]

[default-retry-policy]
initial-interval = "50ms"
max-interval = "1s"
max-attempts = "unlimited"

[admin]
bind-address = "127.0.0.1:$admin"
advertised-address = "http://127.0.0.1:$admin"

[ingress]
bind-address = "127.0.0.1:$ingress"
advertised-address = "http://127.0.0.1:$ingress"
TOML
}

start() {
    local folder=$1 nodes=${2:-1} node
    install
    if [ ! -d "$folder/1" ]; then
        mkdir -p "$folder"
        for node in $(seq "$nodes"); do configure "$folder" "$node" "$nodes"; done
    fi
    for config in "$folder"/*/config.toml; do
        node=$(dirname "$config")
        [ -f "$node/pid" ] && kill -0 "$(cat "$node/pid")" 2>/dev/null && continue
        DO_NOT_TRACK=1 "$server" --no-logo --listen-mode tcp --config-file "$config" --base-dir "$node/data" \
            >>"$node/log" 2>&1 </dev/null &
        echo $! >"$node/pid"
    done
    for config in "$folder"/*/config.toml; do
        node=$(dirname "$config")
        read -r ingress admin _ <"$node/ports"
        for _ in $(seq 1800); do
            answers "$ingress" && answers "$admin" && healthy "$admin" && break
            kill -0 "$(cat "$node/pid")" 2>/dev/null || { cat "$node/log" >&2; return 1; }
            sleep 0.1
        done
        echo "http://127.0.0.1:$ingress http://127.0.0.1:$admin"
    done
}

# Whether the node takes part.
healthy() {
    local line
    exec 4<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&4
    read -r line <&4 || true
    exec 4<&- 4>&-
    case $line in *" 200"*) return 0 ;; *) return 1 ;; esac
}

# Ends a node with this signal, and waits until it is gone.
end() {
    local node=$1 pid
    [ -f "$node/pid" ] || return 0
    pid=$(cat "$node/pid")
    kill "-$2" "$pid" 2>/dev/null || true
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
    rm -f "$node/pid"
}

all() {
    for config in "$1"/*/config.toml; do end "$(dirname "$config")" "$2"; done
}

case "${1:-}:$#" in
    start:2 | start:3) start "$(realpath -m "$2")" "${3:-1}" ;;
    stop:2) all "$(realpath "$2")" TERM ;;
    crash:2) all "$(realpath "$2")" KILL ;;
    crash:3) end "$(realpath "$2")/$3" KILL ;;
    with:0 | with:1) usage ;;
    with:*)
        shift
        nodes=1
        if [ "$1" = --nodes ]; then nodes=$2; shift 2; fi
        [ $# -gt 0 ] || usage
        install
        # In memory, if there is a file system for that: nothing of it is to last.
        folder=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
        trap 'all "$folder" KILL 2>/dev/null || true; rm -rf "$folder"' EXIT
        start "$folder" "$nodes" >"$folder/urls"
        read -r HIER_TEST_RESTATE HIER_TEST_RESTATE_ADMIN <"$folder/urls"
        export HIER_TEST_RESTATE HIER_TEST_RESTATE_ADMIN HIER_TEST_RESTATE_FOLDER=$folder
        "$@"
        ;;
    *) usage ;;
esac
