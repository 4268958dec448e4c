//! A queue of runs that counts, refuses and delays calls, and the graphs of its runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::prelude::*;
use hier_core::runs::{
    Changed, Claimed, MemoryRuns, NewRun, Request, RunClaim, RunStore, RunsError, ThreadAction, ThreadChange,
};
use hier_testkit::{RunsLayer, SaverLayer};
use serde_json::json;
use tokio::sync::Notify;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) n: u64,
}

async fn add(line: &Line) -> LineUpdate {
    Line::update().n(line.n + 1)
}

graph! { pub(crate) One<Line> = Graph { nodes: [add], edges: [START >> add >> END] } }

/// The events that nodes wait for.
#[derive(Clone, Default)]
pub(crate) struct Gate(pub(crate) Arc<Notify>);

async fn wait(line: &Line, run: &Run<Gate>) -> LineUpdate {
    run.context().0.notified().await;
    Line::update().n(line.n + 1)
}

graph! { pub(crate) Waits<Line, Gate> = Graph { nodes: [wait], edges: [START >> wait >> END] } }

/// A queue that counts, refuses and delays calls. By default, runs are claimed only as they are added.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) runs: MemoryRuns,
    pub(crate) records: AtomicUsize,
    pub(crate) fails: AtomicUsize,
    pub(crate) claims: AtomicBool,
    /// Added runs wait.
    pub(crate) holds: AtomicBool,
    /// A claim waits before it is made.
    pub(crate) holds_claims: AtomicBool,
    /// The reply of the recorded call waits.
    pub(crate) holds_answers: AtomicBool,
    pub(crate) held: Notify,
    pub(crate) may_continue: Notify,
}

#[async_trait]
impl SaverLayer for Counting {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for Counting {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        match &change.action {
            ThreadAction::Add(_, Some(_)) => {
                let made = self.runs.run_backend().change(change).await;
                if self.holds.load(Ordering::SeqCst) {
                    self.held.notify_one();
                    self.may_continue.notified().await;
                }
                made
            }
            ThreadAction::Commit(..) => {
                self.records.fetch_add(1, Ordering::SeqCst);
                if self.fails.load(Ordering::SeqCst) > 0 {
                    self.fails.fetch_sub(1, Ordering::SeqCst);
                    return Err(SaverError::Panicked { message: "as asked".to_owned() }.into());
                }
                let recorded = self.runs.run_backend().change(change).await;
                if self.holds_answers.load(Ordering::SeqCst) {
                    self.may_continue.notified().await;
                }
                recorded
            }
            _ => self.runs.run_backend().change(change).await,
        }
    }

    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        if self.holds_claims.swap(false, Ordering::SeqCst) {
            self.held.notify_one();
            self.may_continue.notified().await;
        }
        if self.claims.load(Ordering::SeqCst) {
            self.runs.run_backend().claim(claim, most).await
        } else {
            Ok(Vec::new())
        }
    }
}

pub(crate) fn new(thread: &str, graph: &str) -> NewRun {
    NewRun::new(thread, graph, Request::input(json!({ "n": 1 }))).create_thread()
}
