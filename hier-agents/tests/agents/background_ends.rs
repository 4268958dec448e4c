//! Ends of background subagents: a subagent that has ended never starts again, and its work counts once, even if the
//! answer that ends it stays open or its process dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer as _, ListQuery, MemorySaver};
use hier_core::graph::CompiledGraph;
use hier_core::{Durability, Outcome, Result, RunError};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::background::{results, team};
use crate::background_crashes::Mortal;
use crate::support::{Filing, FilingUpdate, call};

/// The context: a gate behind the digging.
#[derive(Clone)]
struct Pit {
    base: BaseContext,
    digging: Arc<Semaphore>,
    gate: Arc<Semaphore>,
    broken: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Pit {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Pit {
    fn new(model: &ScriptedModel, open: usize) -> Self {
        let (digging, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(open)));
        Self { base: BaseContext::new(model.clone()), digging, gate, broken: Arc::default() }
    }
}

graph! {
    /// Leads.
    Lead<Filing, Pit> = Agent {
        tools: [watch, pay],
        subagents: [Digger { background: true }, Lamp { background: true }],
        layers: [Inherited(Limit { model_calls: 100 })],
    }
}

graph! {
    /// Looks, and digs.
    Digger<Filing, Pit> = Agent { tools: [look, dig] }
}

graph! {
    /// Fails.
    Lamp<Filing, Pit> = SimpleGraph { compute: breaks }
}

async fn breaks(run: &Run<Pit>) -> Result<FilingUpdate> {
    run.context().broken.fetch_add(1, Ordering::SeqCst);
    Err(NodeError::permanent("the lamp is broken"))
}

/// Waits until the digger digs, or cannot.
#[tool]
async fn watch(run: &Run<Pit>) -> String {
    let digs = tokio::time::timeout(Duration::from_secs(1), run.context().digging.acquire()).await;
    if digs.is_ok() { "it digs" } else { "it does not dig" }.to_owned()
}

/// Looks.
#[tool]
async fn look() -> String {
    "a page".to_owned()
}

/// Digs, until the gate is open.
#[tool]
async fn dig(run: &Run<Pit>) -> Result<String> {
    run.context().digging.add_permits(1);
    run.context().gate.acquire().await?.forget();
    Ok("dug".to_owned())
}

/// Pays, and leaves time for others.
#[tool(needs_approval)]
async fn pay() -> String {
    tokio::time::sleep(Duration::from_secs(1)).await;
    "paid".to_owned()
}

/// A model of the lead and the digger.
fn model(lead: impl IntoIterator<Item = Message>) -> ScriptedModel {
    team(lead.into_iter().chain([Message::assistant("done")]), |number, _| match number {
        0 => Message::call("look", json!({})),
        1 => Message::call("dig", json!({})),
        _ => Message::assistant("dug"),
    })
}

fn begin() -> [Message; 2] {
    [call("digger", json!({ "task": "a pit" })), call("watch", json!({}))]
}

fn cancel() -> Message {
    call("cancel_subagent", json!({ "handle": "digger-1" }))
}

fn wait() -> Message {
    call("wait_for_subagents", json!({}))
}

fn pays() -> Message {
    call("pay", json!({}))
}

/// One answer with all these calls.
fn together(answers: impl IntoIterator<Item = Message>) -> Message {
    Message::calls("", answers.into_iter().flat_map(|answer| answer.tool_calls().to_vec()))
}

fn counts(state: &Filing) -> Vec<u64> {
    state.base.layer_counts.iter().map(|(_, count)| count).collect()
}

/// Runs the lead until it asks for the approval of a payment, and continues it with an open gate.
async fn approved(pit: Pit) -> Filing {
    let saver = MemorySaver::new();
    let process = || -> CompiledGraph<Filing, Pit> { Lead::compile().checkpointer(saver.clone()) };
    let asked = process().invoke(Message::user("Go.")).thread("t").context(pit.clone()).await.expect("a question");
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    pit.gate.add_permits(1);
    let answer = Command::resume(json!({ "decision": "approve" }));
    let end = process().invoke(answer).thread("t").context(pit).await.expect("an end");
    let Outcome::Finished(state) = end else { panic!("{end:?}") };
    state
}

#[tokio::test(start_paused = true)]
async fn cancelled_subagent_does_not_start_again_while_its_answer_is_open() {
    for others in [vec![], vec![wait()], vec![cancel()]] {
        let both = together([cancel(), pays()].into_iter().chain(others));
        let model = model(begin().into_iter().chain([both]));
        let state = approved(Pit::new(&model, 0)).await;
        assert_eq!(results(&state)[2..4], ["Cancelled `digger-1`.", "paid"]);
        assert_eq!(model.call_count(), 6, "the digger has asked twice");
        assert_eq!(counts(&state), [6]);
    }
}

#[tokio::test(start_paused = true)]
async fn collected_subagent_does_not_start_again_while_its_answer_is_open() {
    let both = together([wait(), pays()]);
    let pit = Pit::new(&model([call("lamp", json!({ "task": "shine" })), both]), 0);
    let state = approved(pit.clone()).await;
    assert!(results(&state)[1].starts_with("`lamp-1` failed."), "{:?}", results(&state));
    assert_eq!(pit.broken.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn subagent_that_an_answer_does_not_end_continues_while_it_is_open() {
    let none = call("wait_for_subagents", json!({ "handles": [] }));
    let model = model(begin().into_iter().chain([together([none, pays()]), wait()]));
    let state = approved(Pit::new(&model, 0)).await;
    assert_eq!(results(&state)[4], "`digger-1` reported.\ndug");
    assert_eq!((model.call_count(), counts(&state)), (8, vec![8]));
}

/// One process of a thread, which dies after this many commits.
async fn life(memory: &MemorySaver, model: &ScriptedModel, commits: usize) -> Result<Outcome<Filing>, RunError> {
    let graph: CompiledGraph<Filing, Pit> = Lead::compile().checkpointer(Mortal::new(memory, commits));
    let (pit, is_new) = (Pit::new(model, 0), memory.list(ListQuery::thread("t")).await.expect("a list").is_empty());
    let run = if is_new { graph.invoke(Message::user("Go.")) } else { graph.invoke(()) };
    run.thread("t").durability(Durability::Sync).context(pit).await
}

#[tokio::test(start_paused = true)]
async fn work_counts_once_after_a_death_at_each_commit() {
    for ends in [vec![wait(), cancel(), cancel()], vec![cancel(), wait()]] {
        let model = model(begin().into_iter().chain([together(ends)]));
        for commits in 0.. {
            let memory = MemorySaver::new();
            let first = life(&memory, &model, commits).await;
            let undisturbed = first.is_ok();
            let end = match first {
                Ok(end) => end,
                Err(_) => life(&memory, &model, usize::MAX).await.expect("the second process ends it"),
            };
            assert!(end.is_finished());
            assert_eq!(counts(end.state()), [6], "after {commits} commits");
            if undisturbed {
                assert!(commits > 10, "only {commits} commits");
                break;
            }
        }
    }
}

/// A subagent that commits at its end has no counts until it has stopped.
#[tokio::test(start_paused = true)]
async fn each_cancelling_call_leaves_the_counts_of_the_whole_work() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let model = model(begin().into_iter().chain([together([cancel(), cancel()])]));
        let graph: CompiledGraph<Filing, Pit> = Lead::compile().checkpointer(MemorySaver::new());
        let run = graph.invoke(Message::user("Go.")).thread("t").durability(durability);
        let end = run.context(Pit::new(&model, 0)).await.expect("an end");
        assert_eq!(results(end.state())[2..], ["Cancelled `digger-1`.", "Cancelled `digger-1`."]);
        assert_eq!(counts(end.state()), [6], "{durability:?}");
    }
}
