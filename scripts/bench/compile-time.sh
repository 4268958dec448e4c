# Prints the least of three times for each number of nodes.
mkdir "$scratch/src"
cat >"$scratch/Cargo.toml" <<TOML
[package]
name = "compile-time"
version = "0.0.0"
edition = "2024"

[dependencies]
hier-core = { path = "$root/hier-core" }
serde = { version = "1", features = ["derive"] }

[workspace]
TOML
cp Cargo.lock "$scratch/Cargo.lock"

program() {
    local nodes=$1 names="" edges="START" i
    echo 'use hier_core::prelude::*;'
    echo '#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]'
    echo 'struct S { #[reducer(sum)] count: u64 }'
    for ((i = 0; i < nodes; i++)); do
        echo "async fn n$i(state: &S) -> SUpdate { S::update().count(state.count) }"
        names+="n$i, "
        edges+=" >> n$i"
    done
    if [ "$nodes" -gt 0 ]; then
        echo "graph! { G<S> = Graph { nodes: [$names], edges: [$edges >> END] } }"
        echo 'fn main() { println!("{}", G::compile().spec().name); }'
    else
        echo 'fn main() { println!("{}", S::default().count); }'
    fi
}

export CARGO_TARGET_DIR="$root/target/compile-time" CARGO_INCREMENTAL=0
check() { cargo check --quiet --manifest-path "$scratch/Cargo.toml"; }
program 0 >"$scratch/src/main.rs"
check
for nodes in 0 10 100 400; do
    program "$nodes" >"$scratch/src/main.rs"
    best=
    for _ in 1 2 3; do
        touch "$scratch/src/main.rs"
        start=$(date +%s%N)
        check
        took=$((($(date +%s%N) - start) / 1000000))
        if [ -z "$best" ] || [ "$took" -lt "$best" ]; then best=$took; fi
    done
    echo "$nodes nodes: $best ms"
done
