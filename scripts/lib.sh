# Sourced by the other scripts: cleanup, waits, servers and installers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.tools
target=$(cd "$root" && realpath -m "${CARGO_TARGET_DIR:-target}")
built=$target/debug

# The libraries of a release, each after its dependencies. `hier-cli` comes last.
libraries=(hier-spec hier-macros hier-checkpoint hier-runs hier-state hier-core hier-draw hier-agents hier-worker hier-sqlite hier-postgres hier-models
    hier-mcp hier-server hier-restate hier-testkit hier-graph)

die() { echo "$*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
part() { printf -- '-- %s\n' "$*"; }

# Prints the comment at the top of the script.
usage() { sed -n '2,${/^#/!q; s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# Runs a command when the script ends. The commands run in reverse order.
exit_commands=()
at_exit() { exit_commands=("$(printf '%q ' "$@")" "${exit_commands[@]}"); trap clean_up EXIT; }
clean_up() {
    local status=$? command
    for command in "${exit_commands[@]}"; do eval "$command" || true; done
    exit "$status"
}

# Creates the folder $scratch, in PARENT if that exists, and removes it when the script ends.
make_scratch() {
    scratch=$(mktemp -d ${1:+-p "$1"} 2>/dev/null || mktemp -d)
    at_exit rm -rf "$scratch"
}
# For at_exit: shows a file if the script failed.
show_on_failure() { [ "$status" = 0 ] || tail -n 40 -v "$1" >&2; }

# Sends a process SIGNAL (defaults to TERM) and waits until it has ended. After 10 seconds it sends KILL.
end_process() {
    local deadline=$((SECONDS + 10))
    kill "-${2:-TERM}" "$1" 2>/dev/null || return 0
    while kill -0 "$1" 2>/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || { kill -KILL "$1" 2>/dev/null || true; return; }
        sleep 0.1
    done
}

# beside NAME COMMAND…: runs a command in the background, with its output in $scratch/NAME. It ends with the script.
declare -A background
beside() {
    # With job control, the command and its children are a process group, which can be ended as a whole.
    set -m
    "${@:2}" </dev/null >"$scratch/$1" 2>&1 &
    set +m
    background[$1]=$!
    at_exit end_beside "$1"
}
# Waits for the command that `beside NAME` runs, prints its output, and fails if it failed.
finish() {
    local result=0
    wait "${background[$1]}" || result=$?
    unset "background[$1]"
    cat "$scratch/$1"
    return "$result"
}
end_beside() {
    [ -n "${background[$1]:-}" ] || return 0
    end_process "-${background[$1]}"
    show_on_failure "$scratch/$1"
}

is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
fetch() { curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null "$1"; }

free_port() {
    local port
    for _ in $(seq 100); do
        # Below the ports that the system assigns to connections.
        port=$((20000 + RANDOM % 12000))
        is_open "$port" || { echo "$port"; return; }
    done
    die "no free port"
}

# await NAME PID CHECK…: waits until CHECK succeeds, for 3 minutes at most, and while the process lives.
await() {
    local name=$1 pid=$2 deadline=$((SECONDS + 180)) problem=
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || problem="did not answer within 3 minutes"
        kill -0 "$pid" 2>/dev/null || problem="ended before it answered"
        [ -z "$problem" ] || { echo "$name $problem: $*" >&2; return 1; }
        sleep 0.1
    done
}

# serve NAME CHECK… -- COMMAND…: starts a server and waits until CHECK succeeds. `{port}` in both is a free port. Sets `port` and
# `pid`; the output is in $scratch/NAME.log. The server ends with the script.
serve() {
    local name=$1 check=()
    shift
    while [ "$1" != -- ]; do check+=("$1"); shift; done
    shift
    at_exit show_on_failure "$scratch/$name.log"
    for _ in 1 2 3; do
        port=$(free_port)
        "${@//\{port\}/$port}" </dev/null >"$scratch/$name.log" 2>&1 &
        pid=$!
        disown "$pid"
        at_exit end_process "$pid"
        await "$name" "$pid" "${check[@]//\{port\}/$port}" && return
        # If the server ended, another program may have taken the port in between.
        ! kill -0 "$pid" 2>/dev/null || break
    done
    exit 1
}

need() { command -v "$1" >/dev/null || apt_install "${@:2}"; }
apt_install() {
    # One at a time, because apt-get fails if another one runs.
    local alone=(flock "$tools")
    [ "$(id -u)" = 0 ] || alone+=(sudo)
    step "installing $*" >&2
    mkdir -p "$tools"
    "${alone[@]}" apt-get update --quiet >&2
    "${alone[@]}" apt-get install --yes --no-install-recommends "$@" >&2
}

# Installs Python packages, or with the next function npm packages, into .tools/NAME, unless exactly these are installed.
python_packages() {
    local folder=$tools/$1/py
    shift
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ] || return 0
    python3 -c 'import venv, ensurepip' 2>/dev/null || apt_install python3 python3-venv
    echo "installing $* into $folder" >&2
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
    echo "$*" >"$folder/installed"
}
npm_packages() {
    local folder=$tools/$1 wanted
    shift
    wanted="$* $(cat "$folder/package.json" 2>/dev/null || true)"
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || return 0
    need npm nodejs npm
    echo "installing ${*:-package.json} into $folder" >&2
    npm install --loglevel error --no-audit --no-fund --no-save --prefix "$folder" "$@" >&2
    echo "$wanted" >"$folder/installed"
}

# Compiles a program of the registry into .tools/cargo, without optimizations, unless exactly this version is installed.
cargo_program() {
    local name=$1 version=$2
    [ "$(cat "$tools/cargo/$name.installed" 2>/dev/null)" != "$version" ] || return 0
    echo "compiling $name $version into $tools/cargo" >&2
    CARGO_TARGET_DIR=$tools/cargo/build cargo install --quiet --locked --debug --force --root "$tools/cargo" "$name@$version"
    rm -rf "$tools/cargo/build"
    echo "$version" >"$tools/cargo/$name.installed"
}

# Installs LangGraph for Python, which the benches find in HIER_REFERENCE_PYTHON.
install_reference() {
    python_packages reference langgraph==1.2.22 langgraph-hierarchies==0.0.8 langgraph-checkpoint-sqlite==3.1.2
    export HIER_REFERENCE_PYTHON=$tools/reference/py/bin/python
}

# Builds programs with the features of the tests, to reuse their compiled crates.
build() { cargo build --quiet --locked --workspace --all-features "$@"; }

# Packs the crates of a release into $target/package.
packages() { cargo package --quiet --no-verify --allow-dirty --locked "${libraries[@]/#/--package=}" --package=hier-cli; }

# Documents crates as JSON, which needs a nightly toolchain. Only rustdoc runs as one, since build scripts would generate other code on
# it.
rustdoc_json() {
    printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n' >"$scratch/rustdoc"
    chmod +x "$scratch/rustdoc"
    RUSTDOC=$scratch/rustdoc RUSTDOCFLAGS="-Z unstable-options --output-format json" \
        cargo doc --quiet --all-features --no-deps --lib --locked "$@"
}

# run_part FOLDER NAME [ARGUMENT…]: sources FOLDER/NAME.sh in the root of the repository, with the arguments and a scratch folder.
run_part() {
    local file=$root/scripts/$1/${2:-}.sh
    [ -f "$file" ] || usage
    shift 2
    cd "$root"
    make_scratch
    # shellcheck source=/dev/null
    . "$file"
}
