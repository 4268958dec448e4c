//! The function that receives the ended runs of a worker.

use std::sync::Arc;

use hier_core::CancellationToken;
use hier_core::prelude::*;
use hier_core::runs::{MemoryRuns, NewRun, Request, RunStatus, RunStore};
use hier_worker::Worker;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    fails: bool,
}

async fn check(case: &Case) -> hier_core::Result<()> {
    if case.fails { Err(NodeError::permanent("the case fails")) } else { Ok(()) }
}

graph! { Check<Case> = Graph { nodes: [check], edges: [START >> check >> END] } }

#[tokio::test]
async fn each_ended_run_is_reported_even_if_the_function_panics() {
    let (store, stop) = (Arc::new(MemoryRuns::new()), CancellationToken::new());
    let (sender, mut ended) = unbounded_channel();
    let worker = Worker::new(store.clone()).graph("check", Check::compile().erase(|_| Ok(()))).on_end(move |run| {
        sender.send(run.clone()).unwrap();
        assert_eq!(run.status, RunStatus::Success, "a panic of the program");
    });
    let worker = tokio::spawn(worker.run_until(stop.clone()));
    for (thread, fails, status) in
        [("a", false, RunStatus::Success), ("b", true, RunStatus::Error), ("c", false, RunStatus::Success)]
    {
        let new = NewRun::new(thread, "check", Request::input(json!({ "fails": fails }))).create_thread();
        let run = store.driver().create_run(new).await.unwrap();
        let reported = ended.recv().await.unwrap();
        assert_eq!((reported.id, reported.status), (run.id, status));
        assert_eq!(store.driver().run(run.id).await.unwrap().unwrap().status, status, "the end was stored before");
    }
    stop.cancel();
    worker.await.unwrap();
}
