# Prints the least of five times for each kind and number of nodes.
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

# program NODES KIND: a chain of nodes over 20 channels. The nodes borrow the whole state and return updates ("untyped"), or borrow
# views and return views ("typed").
program() {
    local nodes=$1 kind=$2 names="" edges="START" channels="" views="" i to
    for ((i = 0; i < 20; i++)); do
        channels+="c$i: u32, "
        views+="#[derive(View)] #[view(of = S)] struct In$i<'s> { c$i: &'s u32 }"
        views+="#[derive(View)] #[view(of = S)] struct Out$i { c$i: u32 }"
    done
    echo '#![allow(dead_code)]'
    echo 'use hier_core::prelude::*;'
    echo '#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]'
    echo "struct S { $channels }"
    [ "$kind" = untyped ] || echo "$views"
    for ((i = 0; i < nodes; i++)); do
        to=$(((i + 1) % 20))
        if [ "$kind" = typed ]; then
            echo "async fn n$i(state: In$((i % 20))<'_>) -> Out$to { Out$to { c$to: state.c$((i % 20)) + 1 } }"
        else
            echo "async fn n$i(state: &S) -> SUpdate { S::update().c$to(state.c$((i % 20)) + 1) }"
        fi
        names+="n$i, "
        edges+=" >> n$i"
    done
    if [ "$nodes" -gt 0 ]; then
        echo "graph! { G<S> = Graph { nodes: [$names], edges: [$edges >> END] } }"
        echo 'fn main() { println!("{}", G::compile().spec().name); }'
    else
        echo 'fn main() { println!("{}", S::default().c0); }'
    fi
}

export CARGO_TARGET_DIR="$root/target/compile-time" CARGO_INCREMENTAL=0
check() { cargo check --quiet --manifest-path "$scratch/Cargo.toml"; }
program 0 untyped >"$scratch/src/main.rs"
check
for kind in untyped typed; do
    for nodes in 0 10 100 400; do
        program "$nodes" "$kind" >"$scratch/src/main.rs"
        best=
        for _ in 1 2 3 4 5; do
            touch "$scratch/src/main.rs"
            start=$(date +%s%N)
            check
            took=$((($(date +%s%N) - start) / 1000000))
            if [ -z "$best" ] || [ "$took" -lt "$best" ]; then best=$took; fi
        done
        echo "$nodes $kind nodes: $best ms"
    done
done
