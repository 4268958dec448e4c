//! Checkpoints of inner graphs, addressed by their namespaces. Runs from checkpoints that cannot continue are refused.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hier_core::checkpoint::{Checkpointer, Claim, Lease, ListQuery, MemorySaver, SaverError};
use hier_core::prelude::*;
use hier_core::{StateUpdate, async_trait};
use hier_testkit::{Layered, SaverLayer};
use serde_json::json;

use super::kit::*;

/// A graph inside another that asks, and a node behind it.
fn bench() -> (Compiled, Bench) {
    let mut inner = marks(&["i"]);
    inner = inner.node("asks", asks(&["q?"])).edge(START, "i").edge("i", "asks");
    let inner = compile(inner);
    let mut outer = marks(&["a", "z"]);
    outer = outer.subgraph("sub", &inner).edge(START, "a").edge("a", "sub").edge("sub", "z");
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
async fn run_from_an_open_call_continues_the_thread() {
    let (inner, bench) = bench();
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["q?"]);
    let call = of_call(&bench).await;
    // From its newest checkpoint, and from what `update_state` returns.
    assert_eq!(asked(bench.continue_from(call[0].clone()).await.unwrap()), ["q?"]);
    let update = StateUpdate::update(inner.update(json!({ "x": 2 })).unwrap()).as_node("i");
    let changed = inner.update_state(call[0].clone(), update).await.unwrap();
    assert_eq!(asked(bench.continue_from(changed.clone()).await.unwrap()), ["q?"]);
    let answered =
        bench.graph.invoke(Command::resume("yes")).config(changed).context(bench.tally.clone()).await.unwrap();
    assert_eq!(log(answered), json!(["a", "i", "yes", "z"]));
    assert_eq!(bench.tally.of("i"), 1);
}

#[tokio::test]
async fn update_without_effect_is_refused() {
    let (inner, bench) = bench();
    asked(bench.start(json!({ "x": 1 })).await.unwrap());
    let call = of_call(&bench).await;
    let older = call.last().expect("a checkpoint").clone();
    let error = bench.continue_from(older.clone()).await.expect_err("the thread is further").to_string();
    let root = bench.state().await.config;
    let named = format!("run checkpoint `{}` of the root graph", root.checkpoint_id().expect("an id"));
    assert!(error.contains("the thread is not at this checkpoint") && error.contains(&named), "{error}");
    let input = bench.graph.update(json!({ "x": 3 })).unwrap();
    let error = bench
        .graph
        .invoke(input)
        .config(call[0].clone())
        .context(bench.tally.clone())
        .await
        .expect_err("an input")
        .to_string();
    assert!(error.contains("remove the namespace"), "{error}");

    assert!(bench.answer("yes").await.unwrap().is_finished());
    let stored = bench.history().await.len();
    for at in of_call(&bench).await {
        let error = bench.continue_from(at.clone()).await.expect_err("it is over").to_string();
        assert!(error.contains(&named), "{error}");
        let update = StateUpdate::update(inner.update(json!({ "x": 2 })).unwrap()).as_node("i");
        let error = inner.update_state(at, update).await.expect_err("it is over").to_string();
        assert!(error.contains("has ended, and no run continues it"), "{error}");
    }
    assert_eq!(bench.history().await.len(), stored);
    assert!(bench.state().await.is_finished());
}

/// A saver in which something happens just before the next claim.
struct Racing(MemorySaver, Mutex<Option<BoxFuture<'static, ()>>>);

#[async_trait]
impl SaverLayer for Racing {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.0
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let race = self.1.lock().expect("no test panics here").take();
        if let Some(race) = race {
            race.await;
        }
        self.0.acquire(thread, claim).await
    }
}

#[tokio::test]
async fn call_resumed_before_the_claim_is_not_answered() {
    let mut inner = builder();
    inner = inner.node("one", asks(&["one?"])).node("two", asks(&["two?"])).edge(START, "one").edge("one", "two");
    let mut outer = builder();
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub");
    let bench = Bench::new(outer);
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["one?"]);
    let call = of_call(&bench).await[0].clone();
    let (graph, tally) = (bench.graph.clone(), bench.tally.clone());
    let other = async move {
        assert_eq!(asked(graph.invoke(Command::resume("first")).thread("t").context(tally).await.unwrap()), ["two?"]);
    };
    let racing = Arc::new(Layered(Racing((*bench.saver).clone(), Mutex::new(Some(Box::pin(other))))));
    let graph = bench.graph.clone().checkpointer(racing);
    let error = graph
        .invoke(Command::resume("second"))
        .config(call)
        .context(bench.tally.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the thread is not at this checkpoint"), "{error}");
    assert_eq!(log(bench.answer("second").await.unwrap()), json!(["first", "second"]));
}
