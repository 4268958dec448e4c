//! Checkpoints of inner graphs, addressed by their namespaces. Runs from checkpoints that cannot continue are refused.

use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::prelude::*;
use serde_json::json;

use super::kit::*;

/// A graph inside another that asks, and a node behind it.
fn bench() -> (Compiled, Bench) {
    let mut inner = marks(&["i"]);
    inner.node("asks", asks(&["q?"])).edge(START, "i").edge("i", "asks");
    let inner = compile(inner);
    let mut outer = marks(&["a", "z"]);
    outer.subgraph("sub", &inner).edge(START, "a").edge("a", "sub").edge("sub", "z");
    let bench = Bench::new(outer);
    (inner.checkpointer(bench.saver.clone()), bench)
}

/// The checkpoints of the call of the graph inside, the newest first.
async fn of_call(bench: &Bench) -> Vec<Config> {
    let listed = bench.saver.list(ListQuery { namespace: None, ..ListQuery::thread("t") }).await.expect("a list");
    let inside = listed.into_iter().filter(|listed| listed.namespace.starts_with("sub:"));
    let address = |namespace: &str, id| bench.config.clone().namespace(namespace).checkpoint(id);
    inside.map(|listed| address(&listed.namespace, listed.checkpoint.id)).collect()
}

#[tokio::test]
async fn run_from_where_an_open_call_stands_goes_on_with_the_thread() {
    let (inner, bench) = bench();
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["q?"]);
    let call = of_call(&bench).await;
    // From its newest checkpoint, and from what `update_state` returns.
    assert_eq!(asked(bench.go_on_with(call[0].clone()).await.unwrap()), ["q?"]);
    let update = StateUpdate::update(inner.update(json!({ "x": 2 })).unwrap()).as_node("i");
    let changed = inner.update_state(call[0].clone(), update).await.unwrap();
    assert_eq!(asked(bench.go_on_with(changed.clone()).await.unwrap()), ["q?"]);
    let answered = bench.graph.invoke(Command::resume("yes"), changed, bench.tally.clone()).await.unwrap();
    assert_eq!(log(answered), json!(["a", "i", "yes", "z"]));
    assert_eq!(bench.tally.of("i"), 1);
}

#[tokio::test]
async fn an_update_without_effect_is_refused() {
    let (inner, bench) = bench();
    asked(bench.start(json!({ "x": 1 })).await.unwrap());
    let call = of_call(&bench).await;
    let older = call.last().expect("a checkpoint").clone();
    let error = bench.go_on_with(older.clone()).await.expect_err("the thread is further").to_string();
    let root = bench.state().await.config;
    let named = format!("run the checkpoint `{}` of the root graph", root.checkpoint_id().expect("an id"));
    assert!(error.contains("the thread does not stand there") && error.contains(&named), "{error}");
    let input = bench.graph.update(json!({ "x": 3 })).unwrap();
    let error =
        bench.graph.invoke(input, call[0].clone(), bench.tally.clone()).await.expect_err("an input").to_string();
    assert!(error.contains("leave the namespace out"), "{error}");

    assert!(bench.answer("yes").await.unwrap().is_finished());
    let stored = bench.history().await.len();
    for at in of_call(&bench).await {
        let error = bench.go_on_with(at.clone()).await.expect_err("it is over").to_string();
        assert!(error.contains(&named), "{error}");
        let update = StateUpdate::update(inner.update(json!({ "x": 2 })).unwrap()).as_node("i");
        let error = inner.update_state(at, update).await.expect_err("it is over").to_string();
        assert!(error.contains("is over, and nothing goes on from it"), "{error}");
    }
    assert_eq!(bench.history().await.len(), stored);
    assert!(bench.state().await.is_finished());
}
