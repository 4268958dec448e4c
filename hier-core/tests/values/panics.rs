//! A value whose code panics ends the run of its thread with an error that names the channel. The caller sees no panic,
//! and other threads are not affected.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use hier_core::StateUpdate;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;
use serde::{Deserializer, Serializer};

/// Panics in the method with this name.
#[derive(Debug, Default)]
struct Fragile(String);

impl Fragile {
    fn in_method(&self, method: &str) {
        assert!(self.0 != method || std::thread::panicking(), "boom in {method}");
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        self.in_method("clone");
        Self(self.0.clone())
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        self.in_method("drop");
    }
}

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.in_method("serialize");
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Self(String::deserialize(deserializer)?);
        read.in_method("deserialize");
        Ok(read)
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    method: String,
    fragile: Fragile,
    #[reducer(append)]
    log: Vec<u8>,
}

async fn make(case: &Case) -> CaseUpdate {
    Case::update().fragile(Fragile(case.method.clone()))
}

async fn sibling() -> CaseUpdate {
    Case::update().log([1])
}

async fn replace() -> CaseUpdate {
    Case::update().fragile(Fragile::default()).log([2])
}

graph! { Alone<Case> = Graph { nodes: [make, replace], edges: [START >> make >> replace >> END] } }
graph! {
    Together<Case> = Graph {
        nodes: [make, sibling, replace],
        edges: [START >> [make, sibling], make >> replace, sibling >> END, replace >> END],
    }
}

/// Runs a graph. Fails the test if the run panics.
async fn run(graph: &CompiledGraph<Case>, method: &str, thread: &str, is_streamed: bool) -> Result<(), RunError> {
    let input = Case::update().method(method);
    let end = if is_streamed {
        let stream = graph.stream(input).thread(thread).modes([StreamMode::Values, StreamMode::Updates]);
        AssertUnwindSafe(stream.outcome()).catch_unwind().await
    } else {
        AssertUnwindSafe(graph.invoke(input).thread(thread)).catch_unwind().await
    };
    end.expect("the caller sees no panic").map(drop)
}

async fn each_method_of<G>(is_durable: bool)
where
    G: Graph<State = Case, Context = (), Input = FullState, Output = Case>,
{
    for method in ["serialize", "deserialize", "clone", "drop"] {
        // The events of a stream contain the value, and drop it in the code of the caller.
        for is_streamed in if method == "drop" { vec![false] } else { vec![false, true] } {
            let graph = G::compile();
            let graph = if is_durable { graph.checkpointer(MemorySaver::new()) } else { graph };
            let ended = run(&graph, method, "t", is_streamed).await;
            let case = format!("{} {method} {is_durable} {is_streamed}", G::NAME);
            let must_fail = match method {
                "drop" => true,
                "clone" => is_streamed,
                _ => is_durable,
            };
            assert!(ended.is_err() || !must_fail, "{case}");
            if let Err(error) = ended {
                let text = error.to_string();
                // The stream clones what a node returned before the state has it.
                let is_named = text.contains("channel `fragile`") || (is_streamed && text.contains("node `make`"));
                assert!(is_named && text.contains(&format!("boom in {method}")), "{case}: {text}");
            }
            run(&graph, "", "other", is_streamed).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            if is_durable {
                let read = AssertUnwindSafe(graph.state("t")).catch_unwind().await;
                let _ = read.expect("the caller sees no panic");
                run(&graph, "", "t", false).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            }
        }
    }
}

#[tokio::test]
async fn panicking_value_ends_only_the_run_that_has_it() {
    for is_durable in [false, true] {
        each_method_of::<Alone>(is_durable).await;
        each_method_of::<Together>(is_durable).await;
    }
}

/// A task that waits is spawned, and drops the state that it received from its Send.
#[tokio::test(start_paused = true)]
async fn panic_while_a_sent_state_is_dropped_ends_the_run() {
    let work = async |task: Task<Case>| {
        tokio::task::yield_now().await;
        Case::update().log([u8::from(task.state().method.is_empty())])
    };
    let fragile = |_: &Case| [(), ()].map(|()| Case { fragile: Fragile("drop".to_owned()), ..Case::default() });
    let graph = GraphBuilder::<Case>::new("sends").node("work", work).each(START, "cases", "work", fragile);
    let graph = graph.edge("work", END).compile().expect("a graph");
    let run = AssertUnwindSafe(graph.invoke(Case::update()).into_future()).catch_unwind();
    let ended = tokio::time::timeout(std::time::Duration::from_mins(1), run).await.expect("the run ends");
    let error = ended.expect("the caller sees no panic").expect_err("a value panicked").to_string();
    assert!(error.contains("boom in drop"), "{error}");
}

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Vault {
    #[channel(secret)]
    token: Fragile,
    n: u8,
}

async fn fill() -> VaultUpdate {
    Vault::update().token(Fragile("drop".to_owned())).n(1)
}

async fn empty() -> VaultUpdate {
    Vault::update().token(Fragile::default())
}

graph! { Filling<Vault> = Graph { nodes: [fill, empty], edges: [START >> fill >> empty >> END] } }

#[tokio::test]
async fn panic_of_a_secret_value_is_not_quoted() {
    let run = AssertUnwindSafe(Filling::compile().invoke(Vault::update()).into_future()).catch_unwind();
    let error = run.await.expect("the caller sees no panic").expect_err("a value panicked").to_string();
    assert!(error.contains("panicked") && !error.contains("boom"), "{error}");
}

static REFUSES: AtomicBool = AtomicBool::new(false);

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct Unmade {
    n: u8,
}

impl Default for Unmade {
    fn default() -> Self {
        assert!(!REFUSES.load(Ordering::SeqCst), "boom in default");
        Self { n: 0 }
    }
}

async fn count(unmade: &Unmade) -> UnmadeUpdate {
    Unmade::update().n(unmade.n + 1)
}

graph! { Counting<Unmade> = Graph { nodes: [count], edges: [START >> count >> END] } }

#[tokio::test]
async fn state_without_an_initial_value_is_an_error_of_each_call() {
    let graph = Counting::compile().checkpointer(MemorySaver::new());
    let run = || AssertUnwindSafe(graph.invoke(Unmade::update().n(1)).thread("t")).catch_unwind();
    assert_eq!(run().await.expect("no panic").expect("a run").state().n, 2);
    REFUSES.store(true, Ordering::SeqCst);
    let update = StateUpdate::update(Unmade::update().n(5));
    let errors = [
        run().await.expect("no panic").map(drop),
        AssertUnwindSafe(graph.state("t")).catch_unwind().await.expect("no panic").map(drop),
        AssertUnwindSafe(graph.states("t")).catch_unwind().await.expect("no panic").map(drop),
        AssertUnwindSafe(graph.update_state("t", update)).catch_unwind().await.expect("no panic").map(drop),
    ];
    for ended in errors {
        let error = ended.expect_err("the state has no initial value").to_string();
        assert!(error.starts_with("the state of graph `counting` panicked: boom in default"), "{error}");
    }
    REFUSES.store(false, Ordering::SeqCst);
    assert_eq!(run().await.expect("no panic").expect("a run").state().n, 2);
}
