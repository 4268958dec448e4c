#!/usr/bin/env bash
# A throwaway Postgres server for tests, on a free port of the loopback address. Works as root, too.
#
#   scripts/postgres.sh with COMMAND…   runs a command with HIER_TEST_POSTGRES set to the URL of a new server, then removes it
#   scripts/postgres.sh test [ARGUMENT…] [-- FILTER…]   runs `cargo test` with a new server, including the tests that need one
#   scripts/postgres.sh start FOLDER    starts the server in FOLDER, creates the folder if necessary, and prints its URL
#   scripts/postgres.sh stop FOLDER     stops it
#   scripts/postgres.sh tls FOLDER      requires encrypted connections from its next start on; FOLDER/root.pem
#                                       is the root of its certificate, which is for 127.0.0.1; `desk` then needs a password
#   scripts/postgres.sh crash FOLDER    kills it, like a crash; `start` recovers it at the same URL
#   scripts/postgres.sh pool FOLDER URL     starts a pgbouncer before the server at URL, which gives each transaction another
#                                           of two connections, with its files in FOLDER, and prints its own URL
#   scripts/postgres.sh unpool FOLDER       stops it
set -euo pipefail

. "$(dirname "$0")/lib.sh"

bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1 || true)
[ -n "$bin" ] || bin=$(dirname "$(command -v initdb || true)")
[ -x "$bin/initdb" ] || die "Postgres is not installed: apt-get install postgresql"

# The server refuses to run as root.
user=$(id -un)
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id -u "$user" >/dev/null 2>&1 || user=nobody
fi
as_user() {
    if [ "$(id -u)" = 0 ]; then
        (cd / && runuser -u "$user" -- "$@")
    else
        "$@"
    fi
}

start() {
    local folder=$1 is_new=false
    if [ ! -f "$folder/data/PG_VERSION" ]; then
        is_new=true
        mkdir -p "$folder"
        [ "$(id -u)" != 0 ] || chown "$user" "$folder"
        as_user "$bin/initdb" -D "$folder/data" -U hier -A trust -E UTF8 --no-locale --no-sync >"$folder/initdb.log" 2>&1 \
            || { cat "$folder/initdb.log" >&2; return 1; }
        free_port >"$folder/port"
    fi
    local port
    for _ in 1 2 3 4 5; do
        port=$(cat "$folder/port")
        # After a crash the file with the process id still exists.
        as_user "$bin/pg_ctl" -D "$folder/data" -l "$folder/server.log" -w -t 180 \
            -o "-p $port -h 127.0.0.1 -k '' -c max_connections=200" start >/dev/null \
            && { echo "postgres://hier@127.0.0.1:$port/postgres"; return; }
        # Another process may have taken the port. No client knows the port of a new server, so choose another one.
        $is_new || break
        free_port >"$folder/port"
    done
    cat "$folder/server.log" >&2
    return 1
}

tls() {
    local ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch)
    # Commands are joined by `&&`, because `set -e` has no effect here.
    (
        cd "$1" \
            && openssl req -x509 "${ec[@]}" -days 2 -subj "/CN=root of a test" -keyout root.key -out root.pem \
            && openssl req "${ec[@]}" -subj "/CN=server of a test" -keyout server.key -out server.request \
            && echo "subjectAltName=IP:127.0.0.1" >server.names \
            && openssl x509 -req -in server.request -CA root.pem -CAkey root.key -CAcreateserial -days 2 \
                -extfile server.names -out server.pem \
            && { [ "$(id -u)" != 0 ] || chown "$user" server.key server.pem; } \
            && printf "%s = '%s'\n" ssl on ssl_cert_file "$PWD/server.pem" ssl_key_file "$PWD/server.key" \
                >>data/postgresql.auto.conf \
            && printf 'hostssl all %s 127.0.0.1/32 %s\n' desk scram-sha-256 all trust >data/pg_hba.conf
    ) >"$1/tls.log" 2>&1 || { cat "$1/tls.log" >&2; return 1; }
}

pool() {
    local folder=$1 server=${2#*@} port pooler
    pooler=$(command -v pgbouncer || ls /usr/sbin/pgbouncer 2>/dev/null) \
        || { echo "pgbouncer is not installed: apt-get install pgbouncer" >&2; return 3; }
    server=${server%%/*}
    port=$(free_port)
    printf '%s\n' '[databases]' "* = host=${server%:*} port=${server#*:} user=hier" \
        '[pgbouncer]' 'listen_addr = 127.0.0.1' "listen_port = $port" 'unix_socket_dir =' 'auth_type = any' \
        'pool_mode = transaction' 'default_pool_size = 2' 'max_client_conn = 500' "logfile = $folder/pooler.log" \
        "pidfile = $folder/pooler.pid" >"$folder/pooler.ini"
    [ "$(id -u)" != 0 ] || chown -R "$user" "$folder"
    as_user "$pooler" -q -d "$folder/pooler.ini" || { cat "$folder/pooler.log" >&2; return 1; }
    await pgbouncer $$ is_open "$port" || { cat "$folder/pooler.log" >&2; return 1; }
    echo "postgres://hier@127.0.0.1:$port/postgres"
}

stop() { as_user "$bin/pg_ctl" -D "$1/data" -m "$2" -w -t 180 stop >/dev/null; }

case "${1:-}:$#" in
    start:2) start "$(realpath -m "$2")" ;;
    stop:2) stop "$(realpath "$2")" fast ;;
    tls:2) tls "$(realpath "$2")" ;;
    crash:2) stop "$(realpath "$2")" immediate ;;
    pool:3) pool "$(realpath "$2")" "$3" ;;
    unpool:2) kill "$(cat "$2/pooler.pid")" ;;
    with:0 | with:1) usage ;;
    with:* | test:*)
        command=("${@:2}")
        # A child process is a test that other tests start.
        if [ "$1" = test ]; then
            command=(cargo test "${@:2}")
            [[ " $* " = *" -- "* ]] || command+=(--)
            command+=(--include-ignored --skip child_process)
        fi
        # In memory, if such a file system exists, because the data is temporary.
        make_scratch /dev/shm
        chmod 755 "$scratch"
        at_exit stop "$scratch" immediate
        HIER_TEST_POSTGRES=$(start "$scratch")
        export HIER_TEST_POSTGRES
        "${command[@]}"
        ;;
    *) usage ;;
esac
