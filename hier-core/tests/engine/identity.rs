//! No two tasks have the same key, whatever runs at the same moment.

use std::collections::HashSet;

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Keys {
    #[reducer(append)]
    keys: Vec<String>,
}

async fn key(run: &Run) -> KeysUpdate {
    Keys::update().keys([run.idempotency_key()])
}

graph! { Twice<Keys> = Graph { nodes: [a = key, b = key], edges: [START >> a >> b >> END] } }

/// Runs a graph several times on a separate thread.
fn runs() -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let graph = Twice::compile();
    let run = || runtime.block_on(graph.invoke(Keys::update()).into_future()).expect("it does not fail");
    (0..10_000).flat_map(|_| run().into_state().keys).collect()
}

#[test]
fn simultaneous_runs_have_distinct_keys() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(runs)).collect();
    let keys: Vec<String> = threads.into_iter().flat_map(|thread| thread.join().expect("no run panics")).collect();
    let different: HashSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (80_000, 80_000), "all keys, and those that differ");
}
