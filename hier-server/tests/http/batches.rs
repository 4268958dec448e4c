//! Batches of runs on a database that fails in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{
    Changed, MemoryRuns, RunQuery, RunStatus, RunStore, RunsError, ThreadAction, ThreadChange, ThreadQuery,
};
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::graphs::server;
use crate::support::{Desk, Fate, HookedStore, StoreCall, open};

/// A store that creates `good` runs. The next one has this fate. If the store has `no_deletions`, threads stay.
fn failing(good: usize, fate: Fate, no_deletions: bool) -> Arc<Layered<HookedStore>> {
    let created = AtomicUsize::new(0);
    HookedStore::new(move |call| match call {
        StoreCall::Change(ThreadAction::Add(..)) if created.fetch_add(1, Ordering::SeqCst) == good => fate,
        StoreCall::DeleteThread if no_deletions => Fate::Refused,
        _ => Fate::Done,
    })
}

#[tokio::test]
async fn batch_interrupted_by_the_database_is_deleted_again() {
    for (fate, no_deletions) in [(Fate::Refused, false), (Fate::AnswerLost, false), (Fate::Refused, true)] {
        let store = failing(2, fate, no_deletions);
        let storage = server().storage(store.clone(), Arc::new(MemoryStore::default()));
        let desk = open(storage.without_worker()).await;
        let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
        let (status, error) = desk.post("/runs/batch", json!([body, body, body, body])).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status >= 500 && detail.starts_with("run 2 of the batch: "), "{fate:?}: {status} {error}");
        let stay = store.runs.driver().runs(RunQuery::default()).await.unwrap();
        if no_deletions {
            // They are named, since they are going to run.
            assert_eq!(stay.len(), 2);
            assert!(stay.iter().all(|run| detail.contains(&run.id.to_string())), "{detail}");
            assert!(!detail.contains("no run of the batch was added"), "{detail}");
        } else {
            assert!(detail.ends_with("no run of the batch was added"), "{detail}");
            assert_eq!(stay, [], "{fate:?}");
            assert_eq!(store.runs.driver().count_threads(ThreadQuery::default()).await.unwrap(), 0, "{fate:?}");
        }
        let (status, made) = desk.post("/runs/batch", json!([body, body])).await;
        assert_eq!((status, made.as_array().map(Vec::len)), (200, Some(2)), "{fate:?}: {made}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn run_with_unknown_outcome_is_named() {
    for good in [0, 2] {
        let store = failing(good, Fate::AnswerLost, true);
        let storage = server().storage(store.clone(), Arc::new(MemoryStore::default()));
        let desk = open(storage.without_worker()).await;
        let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
        let (status, error) = desk.post("/runs/batch", json!([body, body, body])).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status >= 500 && detail.starts_with(&format!("run {good} of the batch: ")), "{status} {error}");
        assert!(detail.contains("the run itself may have been added"), "{detail}");
        assert!(!detail.contains("no run of the batch was added"), "{detail}");
        assert_eq!(detail.contains("could not be deleted again"), good > 0, "{detail}");
        let stay = store.runs.driver().runs(RunQuery::default()).await.unwrap();
        assert_eq!(stay.len(), good + 1);
        assert!(stay.iter().all(|run| detail.contains(&run.id.to_string())), "{detail}");
        desk.stop().await;
    }
}

/// Creates runs when it is let to.
struct Gated {
    runs: MemoryRuns,
    /// The number of runs that may still be created.
    gate: Semaphore,
    received: UnboundedSender<Creation>,
}

#[derive(Debug, PartialEq)]
enum Creation {
    Asked,
    Done,
    /// Its caller was dropped.
    Dropped,
}

/// Reports if its future is dropped before the end.
struct Unfinished<'a>(Option<&'a UnboundedSender<Creation>>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(received) = self.0.take() {
            let _ = received.send(Creation::Dropped);
        }
    }
}

#[async_trait]
impl SaverLayer for Gated {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for Gated {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if !matches!(change.action, ThreadAction::Add(..)) {
            return self.runs.run_backend().change(change).await;
        }
        let mut unfinished = Unfinished(Some(&self.received));
        let _ = self.received.send(Creation::Asked);
        self.gate.acquire().await.expect("the gate stays").forget();
        let made = self.runs.run_backend().change(change).await;
        unfinished.0 = None;
        let _ = self.received.send(Creation::Done);
        made
    }
}

/// A server whose client disconnects while the server adds a run of the batch.
async fn abandoned(
    with: impl FnOnce(Server) -> Server,
    path: &str,
    body: &Value,
    good: usize,
) -> (Desk, Arc<Layered<Gated>>, UnboundedReceiver<Creation>) {
    let (received, mut creations) = unbounded_channel();
    let store = Arc::new(Layered(Gated { runs: MemoryRuns::new(), gate: Semaphore::new(good), received }));
    let storage = server().storage(store.clone(), Arc::new(MemoryStore::default()));
    let desk = open(with(storage).max_requests(1)).await;
    // A separate client, whose connection is dropped with it.
    let request = reqwest::Client::new().post(format!("{}{path}", desk.base)).json(body);
    let client = tokio::spawn(request.send());
    for _ in 0..good {
        assert_eq!(creations.recv().await, Some(Creation::Asked));
        assert_eq!(creations.recv().await, Some(Creation::Done));
    }
    assert_eq!(creations.recv().await, Some(Creation::Asked));
    client.abort();
    assert!(client.await.is_err_and(|error| error.is_cancelled()));
    // The server answers one request at a time: it answers this once it knows that the client has gone.
    while desk.get("/ok").await.0 == 503 {}
    (desk, store, creations)
}

/// Disconnects after the server has added two of the four runs of a batch.
async fn abandoned_batch() -> (Desk, Arc<Layered<Gated>>, UnboundedReceiver<Creation>) {
    let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    abandoned(Server::without_worker, "/runs/batch", &json!([body, body, body, body]), 2).await
}

/// The worker of the process starts the run in the transaction that adds it.
#[tokio::test]
async fn run_is_cancelled_if_its_client_disconnects_while_it_is_added() {
    let run = json!({ "assistant_id": "slow", "input": { "n": 3.0 }, "on_disconnect": "cancel" });
    let agui = json!({
        "threadId": "x", "runId": "x", "messages": [], "tools": [], "context": [], "state": { "n": 3.0 },
    });
    for (path, body) in [("/runs/stream", &run), ("/runs/wait", &run), ("/agui/slow", &agui)] {
        let (desk, store, mut creations) = abandoned(|server| server, path, body, 0).await;
        store.gate.add_permits(1);
        assert_eq!(creations.recv().await, Some(Creation::Done), "{path}");
        let ended = loop {
            let runs = store.runs.driver().runs(RunQuery::default()).await.expect("runs");
            let [run] = &runs[..] else { panic!("{path}: {runs:?}") };
            if !run.status.is_live() {
                break run.status;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(ended, RunStatus::Interrupted, "{path}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn batch_is_added_whole_if_its_client_disconnects() {
    let (desk, store, mut creations) = abandoned_batch().await;
    store.gate.add_permits(2);
    for expected in [Creation::Done, Creation::Asked, Creation::Done] {
        assert_eq!(creations.recv().await, Some(expected));
    }
    assert_eq!(store.runs.driver().runs(RunQuery::default()).await.unwrap().len(), 4);
    desk.stop().await;
}

#[tokio::test]
async fn stopping_server_waits_for_a_batch_without_a_client() {
    let (desk, store, _creations) = abandoned_batch().await;
    let base = desk.base.clone();
    let stopping = tokio::spawn(desk.stop());
    while reqwest::Client::new().get(format!("{base}/ok")).send().await.is_ok() {}
    // It has stopped listening, and has had its turns to end.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    store.gate.add_permits(2);
    stopping.await.expect("the server stops");
    assert_eq!(store.runs.driver().runs(RunQuery::default()).await.unwrap().len(), 4);
}
