//! The kinds of checkpoints of declared subgraphs, and the states that they keep.

use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_core::graph::CompiledGraph;
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    number: u32,
    total: u32,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Till {
    number: u32,
    #[reducer(sum)]
    taken: u32,
    total: u32,
}

graph! {
    Keeping<Desk> = Graph { nodes: [till = Adding { checkpoints: per_thread }], edges: [START >> till >> END] }
}

graph! {
    Fresh<Desk> = Graph { nodes: [till = Adding { checkpoints: per_call }], edges: [START >> till >> END] }
}

graph! {
    Light<Desk> = Graph { nodes: [till = Adding { checkpoints: none }], edges: [START >> till >> END] }
}

graph! {
    Adding<Till> = Graph { nodes: [take, add], edges: [START >> take >> add >> END] }
}

async fn take(state: &Till) -> TillUpdate {
    Till::update().taken(state.number)
}

async fn add(state: &Till) -> TillUpdate {
    Till::update().total(state.taken)
}

/// The total after taking 1 and after taking 2, and how many series of checkpoints the inner graph has left.
async fn two_runs(desk: CompiledGraph<Desk>) -> (u32, u32, usize) {
    let saver = MemorySaver::new();
    let desk = desk.checkpointer(saver.clone());
    let mut totals = Vec::new();
    for number in [1, 2] {
        let out = desk.invoke(Desk::update().number(number)).thread("t").await.expect("a run");
        totals.push(out.state().total);
    }
    let listed = saver.list(ListQuery { thread: Some("t".to_owned()), ..ListQuery::default() }).await.expect("a list");
    let mut inner: Vec<_> = listed.iter().map(|listed| &*listed.namespace).filter(|name| !name.is_empty()).collect();
    inner.sort_unstable();
    inner.dedup();
    (totals[0], totals[1], inner.len())
}

#[tokio::test]
async fn subgraph_keeps_its_state_only_with_per_thread() {
    assert_eq!(two_runs(Keeping::compile()).await, (1, 3, 1));
    assert_eq!(two_runs(Fresh::compile()).await, (1, 2, 2));
    assert_eq!(two_runs(Light::compile()).await, (1, 2, 0));
}
