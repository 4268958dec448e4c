//! The time at which a worker stores the events of a run that has not ended.

use std::sync::Arc;
use std::time::Duration;

use hier_core::prelude::*;
use hier_core::runs::{EventQuery, MemoryRuns, NewRun, Request, RunStore};
use hier_core::{CancellationToken, StreamMode};
use hier_worker::Worker;
use serde_json::json;
use tokio::time::sleep;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    n: u64,
}

/// Emits an event, and never ends.
async fn emits(run: &Run) -> CaseUpdate {
    run.emit("working");
    std::future::pending().await
}

graph! { Emits<Case> = Graph { nodes: [emits], edges: [START >> emits >> END] } }

#[tokio::test(start_paused = true)]
async fn events_are_stored_after_the_flush_interval() {
    let (store, stop) = (Arc::new(MemoryRuns::new()), CancellationToken::new());
    let worker = Worker::new(store.clone()).graph("emits", Emits::compile().erase(|_| Ok(())));
    let worker = tokio::spawn(worker.flush_interval(Duration::from_mins(1)).run_until(stop.clone()));
    let mut request = Request::input(json!({ "n": 1 }));
    request.stream_modes = vec![StreamMode::Custom];
    store.driver().create_run(NewRun::new("t", "emits", request).create_thread()).await.unwrap();
    for (wait, is_stored) in [(59, false), (2, true)] {
        sleep(Duration::from_secs(wait)).await;
        let stored = store.driver().events(EventQuery::after("t", 0)).await.unwrap().events;
        assert_eq!(stored.iter().any(|row| row.event.mode() == "custom"), is_stored, "{stored:?}");
    }
    stop.cancel();
    worker.await.unwrap();
}
