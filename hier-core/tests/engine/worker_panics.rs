//! Panics in calls of a worker other than its runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, PostOutcome, SaverError,
    codec,
};
use hier_core::prelude::*;
use hier_core::runs::{
    Changed, Claimed, MemoryRuns, NewRun, Request, Run as RunRow, RunClaim, RunQuery, RunStatus, RunStore, RunsError,
    ThreadAction, ThreadChange, ThreadRow,
};
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use hier_worker::Worker;
use serde_json::json;
use uuid::Uuid;

use crate::workers::{Count, CountUpdate, Listening};

/// Panics in one of its methods a number of times.
#[derive(Default)]
struct Panicking {
    runs: MemoryRuns,
    panics: Mutex<(&'static str, usize)>,
    renewed: tokio::sync::watch::Sender<usize>,
}

impl Panicking {
    fn in_method(&self, method: &str) {
        let mut panics = self.panics.lock().expect("the lock is not poisoned");
        let is_armed = panics.0 == method && panics.1 > 0;
        panics.1 -= usize::from(is_armed);
        drop(panics);
        assert!(!is_armed, "boom in {method}");
    }

    fn arm(&self, method: &'static str, times: usize) {
        *self.panics.lock().expect("the lock is not poisoned") = (method, times);
    }

    /// Returns true if it has panicked that many times.
    fn is_through(&self) -> bool {
        self.panics.lock().expect("the lock is not poisoned").1 == 0
    }
}

#[async_trait]
impl SaverLayer for Panicking {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.renewed.send_modify(|times| *times += 1);
        self.in_method("renew");
        Checkpointer::renew(&self.runs, lease).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Checkpointer::capabilities(&self.runs).with_inbox(self)
    }
}

#[hier_core::async_trait]
impl Inbox for Panicking {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.runs.inbox()?.post(thread, graph, letter).await
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.runs.inbox()?.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.in_method("due");
        self.runs.inbox()?.due(query).await
    }
}

#[async_trait]
impl RunsLayer for Panicking {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        self.in_method("thread");
        self.runs.thread_backend().load_thread(id).await
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<RunRow>, RunsError> {
        self.in_method("run");
        self.runs.run_backend().load_run(id).await
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<RunRow>, RunsError> {
        self.in_method("runs");
        self.runs.run_backend().find_runs(query).await
    }

    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        self.in_method("claim_run");
        self.runs.run_backend().claim(claim, most).await
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        match &change.action {
            ThreadAction::Add(..) => self.in_method("create_run"),
            ThreadAction::Commit(_, settlement) if settlement.end.is_some() => self.in_method("record"),
            _ => {}
        }
        self.runs.run_backend().change(change).await
    }
}

/// The log of `tracing` on this thread.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    fn here() -> (Self, tracing::subscriber::DefaultGuard) {
        // If this were the only subscriber, tracing would drop each message that a thread without it logs first.
        let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
        let received = Self::default();
        let writer = received.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (received, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that have this.
    fn lines(&self, with: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().expect("the log").clone()).expect("a text");
        log.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }
}

/// Waits until a run of the thread has ended well, which is another than this.
async fn ends_well(store: &dyn RunStore, thread: &str, but: Option<Uuid>) -> RunRow {
    let mut changes = store.notifier().thread(thread);
    let ended = async {
        loop {
            let runs = store.runs(RunQuery::thread(thread)).await.expect("the store");
            if let Some(run) = runs.into_iter().find(|run| Some(run.id) != but && run.status == RunStatus::Success) {
                return run;
            }
            let _ = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ended).await.expect("a run of the thread ends well")
}

/// A panic in any call of a worker used to stop its claims or its wake-ups for good.
#[tokio::test]
async fn worker_survives_a_panicking_store() {
    for method in ["claim_run", "due", "thread", "runs", "create_run", "record"] {
        let (received, _guard) = Logs::here();
        let store = Arc::new(Layered(Panicking::default()));
        let stop = CancellationToken::new();
        let worker = Worker::new(store.clone()).graph("listening", Listening::compile().erase(|_| Ok(())));
        let worker =
            worker.poll_interval(Duration::from_millis(10)).lease_duration(Duration::from_secs(1)).max_attempts(100);
        let working = tokio::spawn(worker.run_until(stop.clone()));
        let new = NewRun::new("t", "listening", Request::input(json!({ "n": 0 }))).create_thread();
        let first = store.runs.driver().create_run(new).await.expect("a run").id;
        ends_well(&store.runs, "t", None).await;

        store.arm(method, 2);
        let letter = InboxMessage::signal(Uuid::from_u128(1), "go", codec::encode(&7_u64).expect("a number"));
        store.post("t", Listening::NAME, letter).await.expect("a letter");
        ends_well(&store.runs, "t", Some(first)).await;
        assert!(store.is_through(), "{method}");
        stop.cancel();
        working.await.expect("it stops");
        let lines = received.lines("the store of runs panicked");
        assert_eq!(lines.len(), 2, "{method}: {lines:?}");
        let call = match method {
            "claim_run" => "claim_runs",
            "record" => "commit_run",
            method => method,
        };
        for part in [&*format!("boom in {method}"), &*format!("call=\"{call}\""), "returned an error", "fix the panic"]
        {
            assert!(lines[0].contains(part), "{method}: {}", lines[0]);
        }
    }
}

/// Continues once its lease was renewed this often.
async fn until_renewed(run: &Run<Renewals>) -> hier_core::Result<CountUpdate> {
    let mut renewed = run.context().0.clone();
    renewed.wait_for(|times| *times >= 3).await.expect("the store is there");
    Ok(Count::update().n(1))
}

/// The number of renewals of the lease.
#[derive(Clone)]
struct Renewals(tokio::sync::watch::Receiver<usize>);

graph! { Long<Count, Renewals> = Graph { nodes: [until_renewed], edges: [START >> until_renewed >> END] } }

/// A panic in a heartbeat ended it, so that the run lost its lease and was claimed a second time; one in what looks whether a run
/// was cancelled ended the run.
#[tokio::test(start_paused = true)]
async fn run_continues_after_a_panic_of_another() {
    for method in ["renew", "run"] {
        let store = Arc::new(Layered(Panicking::default()));
        store.arm(method, 1);
        let renewals = Renewals(store.renewed.subscribe());
        let stop = CancellationToken::new();
        let graph = Long::compile().erase(move |_| Ok(renewals.clone()));
        let working = tokio::spawn(Worker::new(store.clone()).graph("long", graph).run_until(stop.clone()));
        let new = NewRun::new("t", "long", Request::input(json!({ "n": 0 }))).create_thread();
        store.runs.driver().create_run(new).await.expect("a run");
        assert_eq!(ends_well(&store.runs, "t", None).await.attempts, 1, "{method}");
        assert!(store.is_through(), "{method}");
        stop.cancel();
        working.await.expect("it stops");
    }
}
