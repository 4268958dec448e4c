# Sourced: a Python with the reference in it, in a virtual environment of its own under .tools/.

reference_python() {
    local home=.tools/reference
    if ! "$home/bin/python" -c 'import langgraph, langgraph_hierarchies' 2>/dev/null; then
        if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
            echo "installing python3-venv" >&2
            apt-get update >&2 && apt-get install --yes --no-install-recommends python3 python3-venv >&2
        fi
        echo "installing the reference into $home" >&2
        python3 -m venv "$home" >&2
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check langgraph==1.2.22 langgraph-hierarchies==0.0.8 >&2
    fi
    echo "$home/bin/python"
}
