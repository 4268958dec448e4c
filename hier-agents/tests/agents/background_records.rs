//! The records of background subagents: their handles, their counts, and runs that a supervisor leaves behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;
use hier_agents::{BackgroundStatus, ChatRequest};
use hier_core::checkpoint::{
    Checkpointer as _, Claim, Commit, Lease, LeaseState, ListQuery, MemorySaver, SaverError, SaverLayer, WriteRecord,
};
use hier_core::graph::Failure;
use hier_core::{Result, async_trait};
use hier_testkit::Layered;
use serde_json::json;

use crate::background::{Lab, Lead, Researcher, digs_once, results, start, team};
use crate::support::{Filing, FilingUpdate, call, calls};

graph! {
    /// Leads, and counts the answers of all models.
    Counted<Filing, Lab> = Agent {
        tools: [pay],
        subagents: [Researcher { background: true }],
        layers: [Inherited(Limit { model_calls: 100 })],
    }
}

graph! {
    /// Gives up a supervisor that takes too long.
    Impatient<Filing, Lab> = Graph {
        nodes: [Lead { timeout: 10s, on_error: give_up, goto: [opens_later] }, opens_later],
        edges: [START >> Lead >> END, opens_later >> END],
    }
}

async fn give_up(failure: Failure) -> Command<Filing> {
    Command::update(Filing::update().draft(failure.error.to_string())).goto(Impatient::opens_later)
}

/// Opens the gate, and leaves time to go through it.
async fn opens_later(run: &Run<Lab>) -> Result<FilingUpdate> {
    run.context().gate.add_permits(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(Filing::update().risk(1))
}

/// Pays.
#[tool(needs_approval)]
async fn pay(euros: u32) -> String {
    format!("paid {euros}")
}

/// A saver that grants no background thread to a process.
struct WithoutBackground(MemorySaver);

#[async_trait]
impl SaverLayer for WithoutBackground {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.0
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        if thread.contains("/background/") {
            std::future::pending::<()>().await;
        }
        self.0.acquire(thread, claim).await
    }
}

/// A saver that counts the stored bytes of the channel `background_subagents`.
#[derive(Default)]
struct Weighed {
    memory: MemorySaver,
    bytes: AtomicUsize,
}

#[async_trait]
impl SaverLayer for Weighed {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.memory
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        for record in &commit.records {
            let WriteRecord::Checkpoint { checkpoint, pieces, .. } = record else { continue };
            let own = pieces.iter().filter(|piece| &*checkpoint.channels[piece.channel] == "background_subagents");
            self.bytes.fetch_add(own.map(|piece| piece.bytes.len()).sum(), Ordering::Relaxed);
        }
        self.memory.commit(lease, commit).await
    }
}

fn approval() -> Command<Filing> {
    Command::resume(json!({ "decision": "approve" }))
}

fn finds(_: usize, _: &ChatRequest) -> Message {
    Message::assistant("found")
}

#[tokio::test]
async fn handle_is_not_used_again_after_a_refused_call_and_a_restart() {
    let pays = call("pay", json!({ "euros": 1 }));
    let some =
        [("researcher", json!({ "task": "ore" })), ("researcher", json!(5)), ("researcher", json!({ "task": "gold" }))];
    let more = [("researcher", json!({ "task": "iron" })), ("researcher", json!({ "task": "tin" }))];
    let wait = call("wait_for_subagents", json!({}));
    let model = team(
        [calls(some), start("clay"), pays, calls(more), call("open", json!({})), wait, Message::assistant("done")],
        digs_once,
    );
    let memory = MemorySaver::new();
    let life = || Lead::compile().checkpointer(memory.clone());
    let out = life().invoke(Message::user("Go.")).thread("t").context(Lab::new(&model)).await.unwrap();
    assert!(!out.is_finished(), "it asks for an approval");
    let out = life().invoke(approval()).thread("t").context(Lab::new(&model)).await.unwrap();
    let results = results(out.state());
    let started = |number: usize| format!("Started in the background as `researcher-{number}`.");
    assert_eq!([0, 2, 3, 5, 6].map(|place| results[place].clone()), [1, 3, 4, 5, 6].map(started));
    assert!(results[1].starts_with("Error: "), "{results:?}");
    let found = |(number, task)| format!("`researcher-{number}` reported.\nfound: {task}");
    let reports = [(1, "ore"), (3, "gold"), (4, "clay"), (5, "iron"), (6, "tin")].map(found);
    assert_eq!(results[8], reports.join("\n\n"));
    let listed = memory.list(ListQuery::default()).await.unwrap();
    let threads: BTreeSet<&str> = listed.iter().map(|listed| &*listed.thread).collect();
    assert_eq!(threads.len(), 6, "{threads:?}");
}

/// The subagent has no checkpoint when its process ends. It begins in the next one, when its supervisor has counted more.
#[tokio::test]
async fn work_before_a_restart_counts_once() {
    let pays = call("pay", json!({ "euros": 1 }));
    let wait = call("wait_for_subagents", json!({}));
    let model = team([start("ore"), pays, wait, Message::assistant("done")], finds);
    let memory = MemorySaver::new();
    let first = Counted::compile().checkpointer(WithoutBackground(memory.clone()));
    let out = first.invoke(Message::user("Go.")).thread("t").context(Lab::new(&model)).await.unwrap();
    assert!(!out.is_finished(), "it asks for an approval");
    let second = Counted::compile().checkpointer(memory);
    let out = second.invoke(approval()).thread("t").context(Lab::new(&model)).await.unwrap();
    assert_eq!(results(out.state())[2], "`researcher-1` reported.\nfound");
    let counts: Vec<u64> = out.state().base.layer_counts.iter().map(|(_, count)| count).collect();
    assert_eq!(model.call_count(), 5);
    assert_eq!(counts, [5]);
}

/// Returns the stored bytes of the records of this many subagents, which work one after another.
async fn stored(subagents: usize) -> usize {
    let task = "ore ".repeat(500);
    let rounds = (0..subagents).flat_map(|_| [start(&task), call("wait_for_subagents", json!({}))]);
    let model = team(rounds.chain([Message::assistant("done")]), finds);
    let saver = Arc::new(Layered(Weighed::default()));
    let lead = Lead::compile().checkpointer(saver.clone());
    let config = Config::new().thread("t").recursion_limit(1_000);
    let out = lead.invoke(Message::user("Go.")).config(config.clone()).context(Lab::new(&model)).await.unwrap();
    assert!(out.is_finished());
    let records = out.state().base.background_subagents.clone();
    assert_eq!(records.iter().filter(|(_, record)| record.status == BackgroundStatus::Reported).count(), subagents);
    let read = lead.state("t").await.unwrap();
    assert_eq!(read.values.base.background_subagents, records);
    saver.bytes.load(Ordering::Relaxed)
}

#[tokio::test]
async fn stored_bytes_of_records_grow_with_their_number() {
    let (few, many) = (stored(5).await, stored(20).await);
    // Linear growth is 4 times as much, quadratic growth 16 times.
    assert!(many < few * 6, "5 subagents: {few} bytes, 20 subagents: {many} bytes");
}

#[tokio::test(start_paused = true)]
async fn supervisor_that_a_timeout_drops_leaves_no_subagent() {
    let model = team([start("ore"), call("wait_for_subagents", json!({}))], digs_once);
    let input = Filing::update().messages([Message::user("Go.")]);
    let out = Impatient::compile().invoke(input).context(Lab::new(&model)).await.unwrap();
    assert!(out.state().draft.contains("took longer than 10s"), "{}", out.state().draft);
    assert_eq!(out.state().risk, 1, "the gate is open");
    assert_eq!(model.call_count(), 3, "the subagent waits for the gate, and is gone when it opens");
}
