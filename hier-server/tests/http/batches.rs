//! Batches of runs on a database that fails in the middle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::runs::{MemoryRuns, NewRun, Run, RunQuery, RunStore, RunsError, ThreadQuery};
use hier_core::store::MemoryStore;
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use serde_json::json;

use crate::graphs::server;
use crate::support::open;

/// What becomes of the third run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Refused,
    /// It is stored, and the answer is lost.
    AnswerLost,
    /// It is refused, and nothing can be deleted either.
    Gone,
}

struct Failing {
    runs: MemoryRuns,
    fault: Fault,
    created: AtomicUsize,
}

fn broken() -> RunsError {
    SaverError::database("storing a run", io::Error::other("the disk is on fire")).into()
}

#[async_trait]
impl SaverLayer for Failing {
    fn saver(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for Failing {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        if self.created.fetch_add(1, Ordering::SeqCst) != 2 {
            return self.runs.create_run(run).await;
        }
        if self.fault == Fault::AnswerLost {
            self.runs.create_run(run).await?;
        }
        Err(broken())
    }

    async fn remove_thread(&self, id: &str) -> Result<bool, RunsError> {
        if self.fault == Fault::Gone { Err(broken()) } else { self.runs.remove_thread(id).await }
    }
}

#[tokio::test]
async fn a_batch_that_the_database_cuts_off_is_taken_back() {
    for fault in [Fault::Refused, Fault::AnswerLost, Fault::Gone] {
        let store = Arc::new(Layered(Failing { runs: MemoryRuns::new(), fault, created: AtomicUsize::new(0) }));
        let storage = server().storage(store.clone(), Arc::new(MemoryStore::default()));
        let desk = open(storage.without_worker()).await;
        let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
        let (status, error) = desk.post("/runs/batch", json!([body, body, body, body])).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status >= 500 && detail.starts_with("run 2 of the batch: "), "{fault:?}: {status} {error}");
        let stay = store.runs.runs(RunQuery::default()).await.unwrap();
        if fault == Fault::Gone {
            // They are named, since they are going to run.
            assert_eq!(stay.len(), 2);
            assert!(stay.iter().all(|run| detail.contains(&run.id.to_string())), "{detail}");
            assert!(!detail.contains("no run of the batch was added"), "{detail}");
        } else {
            assert!(detail.ends_with("no run of the batch was added"), "{detail}");
            assert_eq!(stay, [], "{fault:?}");
            assert_eq!(store.runs.count_threads(ThreadQuery::default()).await.unwrap(), 0, "{fault:?}");
        }
        let (status, made) = desk.post("/runs/batch", json!([body, body])).await;
        assert_eq!((status, made.as_array().map(Vec::len)), (200, Some(2)), "{fault:?}: {made}");
        desk.stop().await;
    }
}
