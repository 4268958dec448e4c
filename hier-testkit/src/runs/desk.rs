//! A graph for the cases, and workers that run the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_core::CancellationToken;
use hier_core::graph::{CompiledGraph, DynGraph, GraphBuilder, Task};
use hier_core::prelude::{END, NodeError, START};
use hier_core::runs::{NewRun, Run, StreamMode};
use hier_core::state::{Builtin, DynState, DynUpdate, Schema};
use hier_worker::Worker;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use super::kit::{CaseResult, load_run, new, wait_until_ended};
use super::{ContractViolation, Subject};

#[derive(Default)]
pub(super) struct NodeCounts {
    pub(super) first: AtomicUsize,
    pub(super) second: AtomicUsize,
    /// True if `first` waits forever.
    pub(super) first_hangs: AtomicBool,
    /// True if `second` waits forever.
    pub(super) hangs: AtomicBool,
    /// True if `second` waits forever once it has received its input.
    pub(super) hangs_after: AtomicBool,
    /// The number of times that `second` has received its input.
    pub(super) after: AtomicUsize,
}

impl NodeCounts {
    /// Records that `second` has received its input.
    async fn continuation(&self) {
        self.after.fetch_add(1, Ordering::SeqCst);
        if self.hangs_after.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

/// Builds a graph of two nodes that record their names and received messages. The channel `do` selects what the second
/// node does.
pub(super) fn desk(counts: &Arc<NodeCounts>) -> Result<CompiledGraph<DynState>, ContractViolation> {
    let schema = Schema::new().reduced("log", Builtin::Append).last("do").last("answer");
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("desk", schema);
    let own = counts.clone();
    graph = graph.node("first", move |task: Task<DynState>| {
        let own = own.clone();
        async move {
            own.first.fetch_add(1, Ordering::SeqCst);
            if own.first_hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            task.state().update(json!({ "log": ["first"] }))
        }
    });
    let own = counts.clone();
    graph = graph.node("second", move |task: Task<DynState>| {
        let own = own.clone();
        async move { second(&task, &own).await }
    });
    graph = graph.edge(START, "first");
    graph = graph.edge("first", "second");
    graph = graph.edge("second", END);
    graph = graph.inbox("log");
    graph.compile().map_err(ContractViolation::unexpected)
}

pub(super) async fn second(task: &Task<DynState>, counts: &NodeCounts) -> Result<DynUpdate, NodeError> {
    counts.second.fetch_add(1, Ordering::SeqCst);
    if counts.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let what = task.state().get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
    match &*what {
        "ask" => {
            let answer: Value = task.run().interrupt(&"sure?").await?;
            counts.continuation().await;
            return task.state().update(json!({ "answer": answer, "log": ["answered"] }));
        }
        // A short `sleep` of a node would stay in its run. A question with a deadline ends the run.
        "sleep" | "sleep longer" => {
            let time = if what == "sleep" { Duration::from_millis(300) } else { LONGER };
            let soon = SystemTime::now() + time;
            let _: bool = task.run().interrupt(&"awake?").until(soon, true).await?;
            counts.continuation().await;
        }
        "wait" => {
            let answer: Value = task.run().signal("go").await?;
            counts.continuation().await;
            return task.state().update(json!({ "answer": answer, "log": ["told"] }));
        }
        "wait until" => {
            let soon = SystemTime::now() + Duration::from_millis(300);
            let answer: Value = task.run().signal("go").until(soon, json!("nothing came")).await?;
            counts.continuation().await;
            return task.state().update(json!({ "answer": answer, "log": ["told"] }));
        }
        "fail" => return Err(NodeError::permanent("boom")),
        "panic" => panic!("as asked"),
        "tell" => {
            for number in 0..500 {
                task.run().emit(json!({ "number": number }));
            }
        }
        _ => {}
    }
    task.state().update(json!({ "log": ["second"] }))
}

pub(super) struct BackgroundWorker {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl BackgroundWorker {
    pub(super) fn start(store: &Subject, counts: &Arc<NodeCounts>, lease: Duration) -> Result<Self, ContractViolation> {
        Self::start_as("desk", store, counts, lease)
    }

    /// Starts a worker that runs the graph `desk` under this name.
    pub(super) fn start_as(
        name: &str,
        store: &Subject,
        counts: &Arc<NodeCounts>,
        lease: Duration,
    ) -> Result<Self, ContractViolation> {
        let graph: Arc<dyn DynGraph> = Arc::new(desk(counts)?.erase(|_| Ok(())));
        let worker = Worker::new(store.clone())
            .dyn_graph(name, graph)
            .lease_duration(lease)
            .poll_interval(Duration::from_millis(20));
        let stop = CancellationToken::new();
        Ok(Self { task: tokio::spawn(worker.max_attempts(2).run_until(stop.clone())), stop })
    }

    pub(super) async fn stop(self) -> CaseResult {
        self.stop.cancel();
        self.task.await.map_err(ContractViolation::unexpected)
    }

    /// Stops the worker as if its process were killed.
    pub(super) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The duration of `sleep longer`. Cases stop the worker before the end of this sleep.
pub(super) const LONGER: Duration = Duration::from_secs(4);

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) fn doing(thread: &str, what: &str) -> NewRun {
    let mut run = new(thread);
    run.request.input = json!({ "log": ["in"], "do": what });
    run.request.stream_modes = vec![StreamMode::Values, StreamMode::Updates, StreamMode::Custom];
    run
}

/// Waits until a counter of [`NodeCounts`] has this value.
pub(super) async fn reaches(count: &AtomicUsize, times: usize) -> CaseResult {
    while count.load(Ordering::SeqCst) < times {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Lets the nodes continue, starts a worker, waits until a run has ended, and returns the run.
pub(super) async fn complete(store: &Subject, counts: &Arc<NodeCounts>, id: Uuid) -> Result<Run, ContractViolation> {
    counts.first_hangs.store(false, Ordering::SeqCst);
    counts.hangs.store(false, Ordering::SeqCst);
    let working = BackgroundWorker::start(store, counts, LEASE)?;
    let ended = wait_until_ended(store, id).await?;
    working.stop().await?;
    Ok(ended)
}

pub(super) async fn run_to_end(
    store: &Subject,
    counts: &Arc<NodeCounts>,
    run: NewRun,
) -> Result<Run, ContractViolation> {
    let made = store.create_run(run).await?;
    complete(store, counts, made.id).await
}

/// Sends a message or a signal to the thread `t`. Returns false if the id was used before.
pub(super) async fn send(
    store: &Subject,
    id: Uuid,
    signal: Option<&str>,
    value: &str,
) -> Result<bool, ContractViolation> {
    let graph = desk(&Arc::default())?.erase(|_| Ok(()));
    let saver = store.clone().as_checkpointer();
    graph.send(saver, "t", id, signal, &json!(value)).await.map_err(ContractViolation::unexpected)
}

/// Waits until the run's input is stored.
pub(super) async fn has_entered(store: &Subject, id: Uuid) -> CaseResult {
    while !load_run(store, id).await?.entered {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

pub(super) fn log(run: &Run) -> Value {
    run.output.as_ref().map(|output| output["values"]["log"].clone()).unwrap_or_default()
}
