//! Threads that a graph keeps elsewhere than in the database: they are deleted there by every route that deletes them here, and
//! the server refuses changes that it cannot make there.

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
#[derive(Default)]
struct Elsewhere {
    forgotten: Forgotten,
    runs_elsewhere: bool,
}

impl Runner for Elsewhere {
    fn graph(&self, _name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph> {
        let Self { forgotten, runs_elsewhere } = self;
        Arc::new(Kept { graph, forgotten: forgotten.clone(), runs_elsewhere: *runs_elsewhere })
    }
}

struct Kept {
    graph: Arc<dyn DynGraph>,
    forgotten: Forgotten,
    runs_elsewhere: bool,
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
    fn runs_elsewhere(&self) -> bool {
        self.runs_elsewhere
    }

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
    let desk = open(server().runner(Elsewhere { forgotten: forgotten.clone(), ..Elsewhere::default() })).await;
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
    let desk = open(served.runner(Elsewhere { forgotten: forgotten.clone(), ..Elsewhere::default() })).await;
    run(&desk, "nap", 7_200.0).await;
    let ended = run(&desk, "nap", 0.0).await;
    // The worker of the server finishes its work.
    desk.stop().await;
    assert_eq!(*forgotten.lock().unwrap(), [ended.trim_start_matches("/threads/")]);
}

#[tokio::test]
async fn server_refuses_to_copy_and_prune_threads_of_a_cluster() {
    let desk = open(server().runner(Elsewhere { runs_elsewhere: true, ..Elsewhere::default() })).await;
    let thread = desk.thread().await;
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post(&format!("/threads/{thread}/runs/wait"), run).await.0, 200);
    let prune = json!({ "thread_ids": [thread], "strategy": "keep_latest" });
    for (path, body, instead) in [
        (format!("/threads/{thread}/copy"), json!({}), "pass the values of this one"),
        (format!("/studio/api/threads/{thread}/fork"), json!({}), "pass the values of this one"),
        ("/threads/prune".to_owned(), prune, "`Endpoint::latest_only`"),
        (format!("/studio/api/threads/{thread}/prune"), json!({ "keep": 1 }), "`Endpoint::latest_only`"),
    ] {
        let (status, answer) = desk.post(&path, body).await;
        assert_eq!(status, 400, "{path}: {answer}");
        let detail = answer["detail"].as_str().expect("a reason");
        assert!(detail.contains("is stored by the cluster") && detail.contains(instead), "{path}: {detail}");
    }
    let (_, threads) = desk.post("/threads/search", json!({})).await;
    assert_eq!(threads.as_array().map(Vec::len), Some(1), "{threads}");
    // The thread can be deleted.
    let (status, pruned) = desk.post("/threads/prune", json!({ "thread_ids": [thread] })).await;
    assert_eq!((status, &pruned["pruned_count"]), (200, &json!(1)));
    desk.stop().await;
}
