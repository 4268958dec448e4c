//! Threads that a graph also keeps elsewhere than in the database: they are deleted there by every route that deletes them here.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::graph::{
    DynGraph, DynGraphInfo, DynInput, DynRun, DynSnapshot, DynUpdates, Graph as _, GraphSchemas, Runner,
};
use hier_core::spec::GraphSpec;
use hier_core::{Config, Outcome, RunError};
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::open;
use crate::temporary::{Nap, run};

/// The threads that graphs were asked to delete.
type Forgotten = Arc<Mutex<Vec<String>>>;

/// Stands for graphs as a cluster does.
struct Elsewhere(Forgotten);

impl Runner for Elsewhere {
    fn graph(&self, _name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph> {
        Arc::new(Kept { graph, forgotten: self.0.clone() })
    }
}

struct Kept {
    graph: Arc<dyn DynGraph>,
    forgotten: Forgotten,
}

impl DynGraphInfo for Kept {
    fn spec(&self) -> &GraphSpec {
        self.graph.spec()
    }

    fn schemas(&self) -> &GraphSchemas {
        self.graph.schemas()
    }

    fn check(&self, input: &DynInput) -> Result<(), RunError> {
        self.graph.check(input)
    }
}

#[hier_server::async_trait]
impl DynGraph for Kept {
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError> {
        self.graph.run(run).await
    }

    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError> {
        self.graph.state(saver, config).await
    }

    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError> {
        self.graph.history(saver, config, query).await
    }

    async fn update_state(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError> {
        self.graph.update_state(saver, config, supersteps).await
    }

    async fn forget(&self, thread: &str) -> Result<(), RunError> {
        self.forgotten.lock().unwrap().push(thread.to_owned());
        Ok(())
    }
}

#[tokio::test]
async fn every_deletion_reaches_the_storage_of_the_graph() {
    let forgotten = Forgotten::default();
    let desk = open(server().runner(Elsewhere(forgotten.clone()))).await;
    let thread = async |assistant: &str| {
        let thread = desk.thread().await;
        let run = json!({ "assistant_id": assistant, "input": { "n": 1.0 } });
        assert_eq!(desk.post(&format!("/threads/{thread}/runs/wait"), run).await.0, 200);
        thread
    };
    let gone = async |thread: &str| {
        assert_eq!(desk.get(&format!("/threads/{thread}")).await.0, 404);
        assert_eq!(std::mem::take(&mut *forgotten.lock().unwrap()), [thread]);
    };
    let deleted = thread("two").await;
    desk.ask(Method::DELETE, &format!("/threads/{deleted}"), Value::Null).await;
    gone(&deleted).await;

    let pruned = thread("two").await;
    desk.post("/threads/prune", json!({ "thread_ids": [pruned] })).await;
    gone(&pruned).await;

    let (_, assistant) = desk.post("/assistants", json!({ "graph_id": "two" })).await;
    let assistant = assistant["assistant_id"].as_str().expect("an id");
    let with_assistant = thread(assistant).await;
    desk.ask(Method::DELETE, &format!("/assistants/{assistant}?delete_threads=true"), Value::Null).await;
    gone(&with_assistant).await;

    let in_studio = thread("two").await;
    let (status, answer) = desk.post(&format!("/studio/api/threads/{in_studio}/prune"), json!({ "keep": 0 })).await;
    assert_eq!(status, 200, "{answer}");
    gone(&in_studio).await;
    desk.stop().await;
}

#[tokio::test]
async fn graph_keeps_a_temporary_thread_that_waits_for_a_timer() {
    let forgotten = Forgotten::default();
    let served = server().graph("nap", Nap::compile(), ());
    let desk = open(served.runner(Elsewhere(forgotten.clone()))).await;
    run(&desk, "nap", 7_200.0).await;
    let ended = run(&desk, "nap", 0.0).await;
    // The worker of the server finishes its work.
    desk.stop().await;
    assert_eq!(*forgotten.lock().unwrap(), [ended.trim_start_matches("/threads/")]);
}
