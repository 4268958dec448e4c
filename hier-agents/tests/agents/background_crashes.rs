//! Background subagents whose process dies at each of its commits: the end is that of an undisturbed run, each subagent
//! is started once, and each message arrives once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Lease, LeaseState, ListQuery, MemorySaver, SaverError,
};
use hier_core::graph::{DynGraph, DynInput, DynRun};
use hier_core::runs::{EventBuffering, MemoryRuns, RunLog, RunStore};
use hier_core::{Config, Durability, Outcome, RunError, async_trait};
use hier_testkit::{Layered, SaverLayer, ScriptedModel};
use serde_json::json;

use crate::background::{Lab, Lead, results, start, team};
use crate::support::{Filing, call, calls};

/// A saver that stores this many commits, and then none, as if the process had died.
pub(crate) struct Mortal {
    memory: MemorySaver,
    left: AtomicUsize,
}

impl Mortal {
    pub(crate) fn new(memory: &MemorySaver, commits: usize) -> Layered<Self> {
        Layered(Self { memory: memory.clone(), left: AtomicUsize::new(commits) })
    }

    /// Stores nothing more.
    pub(crate) fn die(&self) {
        self.left.store(0, Ordering::Relaxed);
    }
}

#[async_trait]
impl SaverLayer for Mortal {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }

    // Commits in the background stay in the background.
    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_leases_expiring(true)
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| SaverError::database("storing", std::io::Error::other("the process has died")))?;
        self.memory.commit(lease, commit).await
    }
}

/// Starts two, steers and waits for one, and cancels the other.
fn model() -> ScriptedModel {
    let both = calls([("researcher", json!({ "task": "ore" })), ("researcher", json!({ "task": "gold" }))]);
    let steer = call("message_subagent", json!({ "handle": "researcher-1", "message": "Look for silver." }));
    let opened = calls([("open", json!({})), ("cancel_subagent", json!({ "handle": "researcher-2" }))]);
    let waits = call("wait_for_subagents", json!({ "handles": ["researcher-1"] }));
    let gated = call("wait_for_subagents", json!({ "seconds": 0.003 }));
    let script = [both, gated, steer, opened, waits, start("iron"), Message::assistant("done")];
    team(script, |number, request| match number {
        0 => Message::call("look", json!({ "page": 1 })),
        1 => Message::call("dig", json!({})),
        _ => {
            let mut texts: Vec<String> = request.messages.iter().map(Message::text).collect();
            // The message comes between any two of the others.
            texts.sort();
            Message::assistant(texts.join("; "))
        }
    })
}

/// One process, which dies after this many commits.
async fn life(
    memory: &MemorySaver,
    lab: &Lab,
    commits: usize,
    durability: Durability,
) -> Result<Outcome<Filing>, RunError> {
    let graph = Lead::compile().checkpointer(Mortal::new(memory, commits));
    let is_new = memory.list(ListQuery { limit: Some(1), ..ListQuery::thread("t") }).await.unwrap().is_empty();
    if is_new {
        return graph.invoke(Message::user("Go.")).thread("t").durability(durability).context(lab.clone()).await;
    }
    graph.invoke(()).thread("t").durability(durability).context(lab.clone()).await
}

/// The results that do not depend on time.
fn certain(state: &Filing) -> Vec<String> {
    results(state).into_iter().filter(|result| !result.contains(" is running ")).collect()
}

async fn threads(memory: &MemorySaver) -> BTreeSet<String> {
    let listed = memory.list(ListQuery::default()).await.unwrap();
    listed.into_iter().map(|listed| listed.thread.to_string()).collect()
}

async fn survives(durability: Durability) {
    let memory = MemorySaver::new();
    let model = model();
    let expected = life(&memory, &Lab::new(&model), usize::MAX, durability).await.expect("nothing disturbs it");
    let expected = certain(expected.state());
    assert!(expected[5].contains("`researcher-1` reported"), "{expected:?}");
    assert_eq!(expected[5].matches("Look for silver.").count(), 1, "{expected:?}");
    assert!(threads(&memory).await.len() >= 3, "the subagents have threads");
    for commits in 0..200 {
        let (memory, lab) = (MemorySaver::new(), Lab::new(&model));
        let first = life(&memory, &lab, commits, durability).await;
        let undisturbed = first.is_ok();
        let end = match first {
            Ok(end) => end,
            Err(_) => life(&memory, &lab, usize::MAX, durability).await.expect("the second process ends it"),
        };
        assert!(end.is_finished());
        assert_eq!(certain(end.state()), expected, "after {commits} commits");
        let threads = threads(&memory).await;
        assert!(threads.len() <= 4, "after {commits} commits: {threads:?}");
        if undisturbed {
            assert!(commits > 10, "only {commits} commits");
            return;
        }
    }
    panic!("the run has no end");
}

#[tokio::test]
async fn run_of_a_worker_writes_the_threads_of_its_subagents() {
    let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
    let lease = store.acquire("t", Claim::default()).await.unwrap();
    let log = Arc::new(RunLog::new(store.clone(), lease, None, EventBuffering::default()));
    let lab = Lab::new(&model());
    let graph = Lead::compile().erase(move |_| Ok(lab.clone()));
    let input = DynInput::New(json!({ "messages": [serde_json::to_value(Message::user("Go.")).unwrap()] }));
    let mut run = DynRun::new(input, Config::new().thread("t"));
    run.saver = Some(log.clone());
    let end = graph.run(run).await.unwrap();
    assert!(end.is_finished());
    let listed = store.list(ListQuery::default()).await.unwrap();
    let threads: BTreeSet<&str> = listed.iter().map(|listed| &*listed.thread).collect();
    assert!(threads.iter().any(|thread| thread.starts_with("t/background/researcher-1-")), "{threads:?}");
    let other = Checkpointer::acquire(&*log, "t2", Claim::default()).await.expect_err("it is another thread");
    assert!(other.to_string().contains("is of thread `t`"), "{other}");
}

#[tokio::test]
async fn background_subagents_survive_a_death_at_each_commit() {
    survives(Durability::Sync).await;
}

#[tokio::test]
async fn background_subagents_survive_a_death_at_each_commit_in_the_background() {
    survives(Durability::Async).await;
}
