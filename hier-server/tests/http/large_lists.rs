//! Lists whose items may be large are sent item by item.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_core::checkpoint::{Checkpointer, Saved, SaverError};
use hier_core::runs::{MemoryRuns, Run, RunQuery, RunStore, RunsError};
use hier_core::store::MemoryStore;
use hier_server::async_trait;
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::graphs::server;
use crate::support::{Desk, open};

/// A store that, once it is limited, needs a permit for each state and each run that it reads.
struct LimitedReads {
    runs: MemoryRuns,
    is_limited: AtomicBool,
    /// True if the next state was deleted after it was listed.
    loses_state: AtomicBool,
    permits: Semaphore,
}

impl LimitedReads {
    async fn permitted(&self, count: usize) {
        if self.is_limited.load(Ordering::Relaxed) {
            let count = u32::try_from(count).expect("a number");
            self.permits.acquire_many(count).await.expect("permits").forget();
        }
    }
}

impl fmt::Debug for LimitedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitedReads")
    }
}

#[async_trait]
impl SaverLayer for LimitedReads {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        if self.loses_state.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        self.permitted(1).await;
        Checkpointer::get(&self.runs, thread, namespace, id).await
    }
}

#[async_trait]
impl RunsLayer for LimitedReads {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        let found = self.runs.run_backend().find_runs(query).await?;
        self.permitted(found.len()).await;
        Ok(found)
    }
}

/// Requests a list, and permits each read only after the items of the earlier reads have arrived. Returns the list.
async fn read_one_by_one(desk: &Desk, store: &LimitedReads, method: Method, path: &str, body: &Value) -> Vec<Value> {
    store.permits.add_permits(1);
    let mut response = desk.send(method, path, body).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let (mut text, mut count) = (Vec::new(), 0);
    while let Some(part) = response.chunk().await.expect("a part") {
        text.extend_from_slice(&part);
        let so_far: Vec<Value> = serde_json::from_slice(&[&*text, b"]"].concat()).unwrap_or_default();
        if so_far.len() > count {
            count = so_far.len();
            store.permits.add_permits(1);
        }
    }
    store.permits.forget_permits(1);
    serde_json::from_slice(&text).expect("a list")
}

async fn limited() -> (Desk, Arc<Layered<LimitedReads>>) {
    let runs = LimitedReads {
        runs: MemoryRuns::new(),
        is_limited: AtomicBool::new(false),
        loses_state: AtomicBool::new(false),
        permits: Semaphore::new(0),
    };
    let store = Arc::new(Layered(runs));
    let desk = open(server().storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    (desk, store)
}

#[tokio::test]
async fn states_and_runs_are_sent_one_by_one() {
    let (desk, store) = limited().await;
    let path = format!("/threads/{}", desk.thread().await);
    for n in 0..3 {
        let run = json!({ "assistant_id": "two", "input": { "n": f64::from(n) } });
        assert_eq!(desk.post(&format!("{path}/runs/wait"), run).await.0, 200);
    }
    let (list, history) = (format!("{path}/runs?limit=2&offset=1"), format!("{path}/history"));
    let (_, all) = desk.get(&format!("{path}/runs")).await;
    let (_, states) = desk.post(&history, json!({ "limit": 5 })).await;
    let (_, past) = desk.get(&format!("{history}?limit=5")).await;
    assert_eq!((all.as_array().map(Vec::len), states.as_array().map(Vec::len), &past), (Some(3), Some(5), &states));
    store.is_limited.store(true, Ordering::Relaxed);
    let found = read_one_by_one(&desk, &store, Method::GET, &list, &Value::Null).await;
    assert_eq!(found, all.as_array().expect("runs")[1..]);
    let found = read_one_by_one(&desk, &store, Method::POST, &history, &json!({ "limit": 5 })).await;
    assert_eq!(json!(found), states);
    store.is_limited.store(false, Ordering::Relaxed);
    desk.stop().await;
}

#[tokio::test]
async fn history_continues_after_a_checkpoint_that_was_deleted_meanwhile() {
    let (desk, store) = limited().await;
    let path = format!("/threads/{}", desk.thread().await);
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post(&format!("{path}/runs/wait"), run).await.0, 200);
    let history = format!("{path}/history");
    let (_, states) = desk.post(&history, json!({ "limit": 5 })).await;
    store.loses_state.store(true, Ordering::Relaxed);
    assert_eq!(desk.post(&history, json!({ "limit": 5 })).await.1, states);
    desk.stop().await;
}
