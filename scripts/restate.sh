#!/usr/bin/env bash
# A throwaway Restate server for tests, on free ports of the loopback address. It is installed into .tools/restate once (npm).
#
#   scripts/restate.sh with [--nodes N] COMMAND…   runs a command with a new server, or a cluster of N nodes, then removes it
#   scripts/restate.sh start FOLDER [N]            starts the nodes in FOLDER, creates the folder if necessary, and prints a line of
#                                                  `INGRESS ADMIN` for each
#   scripts/restate.sh stop FOLDER                 stops them
#   scripts/restate.sh crash FOLDER [NODE]         kills all of them, or one, like a crash; `start` recovers them at the
#                                                  same addresses
#
# A command finds these variables in its environment:
#   HIER_TEST_RESTATE         the URL of the ingress (of the first node)
#   HIER_TEST_RESTATE_ADMIN   the URL of the admin API (of the first node)
#   HIER_TEST_RESTATE_FOLDER  the folder, for `crash` and `start`
#
# Needs Node and npm for the installation, and Linux or macOS on x64 or arm64.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

install() {
    local arch=arm64 package
    [ "$(uname -m)" != x86_64 ] || arch=x64
    package=@restatedev/restate-server-$(uname -s | tr '[:upper:]' '[:lower:]')-$arch
    npm_packages restate --ignore-scripts "$package@1.7.12"
    server=$tools/restate/node_modules/$package/bin/restate-server
}

# The configuration of one node of several.
configure() {
    local folder=$1 node=$2 nodes=$3 fabric ingress admin
    fabric=$(free_port); ingress=$(free_port); admin=$(free_port)
    mkdir -p "$folder/$node"
    echo "$ingress $admin $fabric" >"$folder/$node/ports"
    local first
    first=$(cut -d' ' -f3 "$folder/1/ports")
    # Few partitions and small pools, because a build runs at the same time on a small machine.
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
# Fewer than the default of a server, 70. The services of hier replace this limit.
max-attempts = 3

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
        disown
    done
    for config in "$folder"/*/config.toml; do
        node=$(dirname "$config")
        read -r ingress admin _ <"$node/ports"
        await Restate "$(cat "$node/pid")" takes_part "$ingress" "$admin" || { cat "$node/log" >&2; return 1; }
        echo "http://127.0.0.1:$ingress http://127.0.0.1:$admin"
    done
}

# Succeeds once the node has joined the cluster.
takes_part() { is_open "$1" && fetch "http://127.0.0.1:$2/health"; }

# Ends a node with this signal.
end_node() {
    [ -f "$1/pid" ] || return 0
    end_process "$(cat "$1/pid")" "$2"
    rm -f "$1/pid"
}

# Ends all nodes with this signal.
end_all() {
    for config in "$1"/*/config.toml; do end_node "$(dirname "$config")" "$2"; done
}

case "${1:-}:$#" in
    start:2 | start:3) start "$(realpath -m "$2")" "${3:-1}" ;;
    stop:2) end_all "$(realpath "$2")" TERM ;;
    crash:2) end_all "$(realpath "$2")" KILL ;;
    crash:3) end_node "$(realpath "$2")/$3" KILL ;;
    with:0 | with:1) usage ;;
    with:*)
        shift
        nodes=1
        if [ "$1" = --nodes ]; then nodes=$2; shift 2; fi
        [ $# -gt 0 ] || usage
        install
        # In memory, if such a file system exists, because the data is temporary.
        make_scratch /dev/shm
        at_exit end_all "$scratch" KILL
        start "$scratch" "$nodes" >"$scratch/urls"
        read -r HIER_TEST_RESTATE HIER_TEST_RESTATE_ADMIN <"$scratch/urls"
        export HIER_TEST_RESTATE HIER_TEST_RESTATE_ADMIN HIER_TEST_RESTATE_FOLDER=$scratch
        "$@"
        ;;
    *) usage ;;
esac
