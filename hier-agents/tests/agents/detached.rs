//! Detached subagents: they continue when the turn of their supervisor ends, and a later turn collects their reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{ApprovalRequest, BackgroundStatus};
use hier_core::checkpoint::{Checkpointer as _, Claim, MemorySaver};
use hier_core::graph::BoundGraph;
use hier_core::message::Body;
use hier_core::{CancellationToken, Durability, Outcome, Result, RunError};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::background::results;
use crate::background_crashes::Mortal;
use crate::support::{Filing, call, calls};

/// The context: a gate in front of the digging, and the number of finished digs.
#[derive(Clone)]
struct Mine {
    base: BaseContext,
    gate: Arc<Semaphore>,
    begun: Arc<Semaphore>,
    dug: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Mine {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Mine {
    /// Forgets the digs that have begun.
    fn forget_begun(&self) {
        self.begun.forget_permits(usize::MAX);
    }
}

graph! {
    /// Leads.
    Foreman<Filing, Mine> = Agent { subagents: [Miner { detached: true }, Buyer { detached: true }] }
}

graph! {
    /// Digs.
    Miner<Filing, Mine> = Agent { tools: [dig] }
}

graph! {
    /// Buys.
    Buyer<Filing, Mine> = Agent { tools: [buy] }
}

graph! {
    /// Has the foreman as a subagent.
    Owner<Filing, Mine> = Agent { subagents: [Foreman {}] }
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Mine>) -> Result<String> {
    let mine = run.context();
    mine.begun.add_permits(1);
    mine.gate.acquire().await?.forget();
    mine.dug.fetch_add(1, Ordering::SeqCst);
    Ok("dug".to_owned())
}

/// Buys.
#[tool(needs_approval)]
async fn buy(euros: u32) -> String {
    format!("bought for {euros}")
}

/// The foreman's replies in the order of the conversation. Subagents call their tool once, and report.
fn mine(foreman: impl IntoIterator<Item = Message>) -> Mine {
    let foreman: Vec<Message> = foreman.into_iter().collect();
    let model = ScriptedModel::reacting(move |request| {
        let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let replies = request.messages.iter().filter(|message| matches!(message.body, Body::Assistant { .. })).count();
        match (has("check_subagents"), replies) {
            (true, _) => foreman[replies].clone(),
            (false, 0) if has("foreman") => call("foreman", json!({ "task": "lead" })),
            (false, 0) if has("buy") => call("buy", json!({ "euros": 5 })),
            (false, 0) => call("dig", json!({})),
            _ => Message::assistant("found"),
        }
    });
    let closed = || Arc::new(Semaphore::new(0));
    Mine { base: BaseContext::new(model), gate: closed(), begun: closed(), dug: Arc::default() }
}

fn miner() -> Message {
    call("miner", json!({ "task": "ore" }))
}

fn wait() -> Message {
    call("wait_for_subagents", json!({}))
}

fn check() -> Message {
    call("check_subagents", json!({}))
}

fn done() -> Message {
    Message::assistant("done")
}

fn foreman(saver: &MemorySaver, mine: &Mine) -> BoundGraph<Filing, Mine> {
    Foreman::compile().checkpointer(saver.clone()).with_context(mine.clone())
}

async fn turn(graph: &BoundGraph<Filing, Mine>, text: &str) -> Filing {
    let out = graph.invoke(Message::user(text)).thread("t").await.expect("the turn ends");
    let Outcome::Finished(state) = out else { panic!("{out:?}") };
    state
}

/// Continues the subagents until one digs.
async fn continues(graph: &BoundGraph<Filing, Mine>, mine: &Mine) -> JoinHandle<Result<(), RunError>> {
    mine.forget_begun();
    let continues = tokio::spawn(graph.continue_detached("t"));
    mine.begun.acquire().await.unwrap().forget();
    continues
}

/// Returns the thread of the first subagent.
fn first_thread(state: &Filing) -> String {
    let (handle, record) = state.base.background_subagents.iter().next().unwrap();
    format!("t/background/{handle}-{}", record.task.simple())
}

fn statuses(state: &Filing) -> Vec<BackgroundStatus> {
    state.base.background_subagents.iter().map(|(_, record)| record.status).collect()
}

#[tokio::test]
async fn later_turn_continues_the_subagent_and_collects_its_report() {
    let mine = mine([miner(), done(), check(), done(), wait(), done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    let state = turn(&graph, "Dig.").await;
    assert_eq!(results(&state), ["Started in the background as `miner-1`. It continues when your turn ends."]);
    assert_eq!(statuses(&state), [BackgroundStatus::Running]);
    let state = turn(&graph, "And?").await;
    assert!(results(&state)[1].starts_with("`miner-1` is running"), "{:?}", results(&state));
    mine.gate.add_permits(1);
    let state = turn(&graph, "And now?").await;
    assert_eq!(results(&state)[2], "`miner-1` reported.\nfound");
    assert_eq!(statuses(&state), [BackgroundStatus::Reported]);
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn subagent_works_between_the_turns() {
    let mine = mine([miner(), done(), check(), done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    turn(&graph, "Dig.").await;
    mine.gate.add_permits(1);
    graph.continue_detached("t").await.expect("it ends");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
    // It does nothing more, and a thread without subagents has none to continue.
    graph.continue_detached("t").await.expect("it has ended");
    graph.continue_detached("other").await.expect("there is none");
    let state = turn(&graph, "And?").await;
    assert_eq!(results(&state)[1], "`miner-1` reported.\nfound");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn turn_does_not_disturb_a_subagent_that_another_process_continues() {
    let mine = mine([miner(), done(), check(), done(), wait(), done()]);
    let saver = MemorySaver::new();
    let graph = foreman(&saver, &mine);
    turn(&graph, "Dig.").await;
    let elsewhere = continues(&foreman(&saver, &mine), &mine).await;
    let state = turn(&graph, "And?").await;
    assert!(results(&state)[1].starts_with("`miner-1` is running"), "{:?}", results(&state));
    let opens = mine.gate.clone();
    let opened = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        opens.add_permits(1);
    });
    let state = turn(&graph, "And now?").await;
    assert_eq!(results(&state)[2], "`miner-1` reported.\nfound");
    opened.await.unwrap();
    elsewhere.await.unwrap().expect("it has ended there");
    assert_eq!(
        (mine.dug.load(Ordering::SeqCst), mine.begun.available_permits()),
        (1, 0),
        "no turn has started it again"
    );
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_a_process_that_has_died() {
    let mine = mine([miner(), done()]);
    let saver = MemorySaver::new();
    let graph = foreman(&saver, &mine);
    let state = turn(&graph, "Dig.").await;
    let dead = saver.acquire(&first_thread(&state), Claim::default()).await.unwrap();
    mine.gate.add_permits(1);
    let waits = tokio::spawn(graph.continue_detached("t"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(mine.dug.load(Ordering::SeqCst), 0, "its lease is held");
    saver.release(&dead).await.unwrap();
    waits.await.unwrap().expect("it ends");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn questions_wait_for_a_turn() {
    let buyer = call("buyer", json!({ "task": "ore" }));
    let mine = mine([buyer, done(), check(), wait(), done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    turn(&graph, "Buy.").await;
    graph.continue_detached("t").await.expect("it asks");
    let out = graph.invoke(Message::user("And?")).thread("t").await.unwrap();
    let Outcome::Interrupted(asked) = out else { panic!("{out:?}") };
    assert!(results(&asked.state)[1].starts_with("`buyer-1` has a question"), "{:?}", results(&asked.state));
    assert!(asked.questions[0].parse::<ApprovalRequest>().is_ok());
    let answer = Command::answers([(&asked.questions[0].id, json!({ "decision": "approve" }))]);
    let out = graph.invoke(answer).thread("t").await.unwrap();
    assert_eq!(results(out.state())[2], "`buyer-1` reported.\nfound");
}

#[tokio::test]
async fn later_turn_cancels_the_subagent() {
    let cancel = call("cancel_subagent", json!({ "handle": "miner-1" }));
    let mine = mine([miner(), done(), cancel, done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    turn(&graph, "Dig.").await;
    let state = turn(&graph, "Stop.").await;
    assert_eq!(statuses(&state), [BackgroundStatus::Cancelled]);
    mine.gate.add_permits(1);
    graph.continue_detached("t").await.expect("there is nothing to do");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn subagent_that_a_turn_cancels_stops_where_it_is_driven() {
    let cancel = call("cancel_subagent", json!({ "handle": "miner-1" }));
    let mine = mine([miner(), done(), cancel, done()]);
    let saver = MemorySaver::new();
    let graph = foreman(&saver, &mine);
    turn(&graph, "Dig.").await;
    let elsewhere = continues(&foreman(&saver, &mine), &mine).await;
    let state = turn(&graph, "Stop.").await;
    assert_eq!(statuses(&state), [BackgroundStatus::Cancelled]);
    elsewhere.await.unwrap().expect("it stops, although the gate is closed");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn subagent_that_is_driven_elsewhere_does_not_hold_up_or_repeat_another() {
    let both = calls([("miner", json!({ "task": "ore" })), ("buyer", json!({ "task": "ore" }))]);
    let mine = mine([both, done()]);
    let saver = MemorySaver::new();
    let graph = foreman(&saver, &mine);
    let state = turn(&graph, "Go.").await;
    let thread = first_thread(&state);
    assert!(thread.starts_with("t/background/buyer-1-"), "{thread}");
    let elsewhere = saver.acquire(&thread, Claim::default()).await.unwrap();
    mine.gate.add_permits(100);
    let waits = tokio::spawn(graph.continue_detached("t"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1, "the miner has ended, once");
    saver.release(&elsewhere).await.unwrap();
    waits.await.unwrap().expect("the buyer asks");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn subagent_ends_with_a_turn_that_no_other_follows() {
    let mine = mine([miner(), done()]);
    let out = Foreman::compile().invoke(Message::user("Dig.")).context(mine.clone()).await.unwrap();
    assert_eq!(statuses(out.state()), [BackgroundStatus::Cancelled], "without a checkpointer");
    assert_eq!(results(out.state()), ["Started in the background as `miner-1`."]);
    let owner = Owner::compile().checkpointer(MemorySaver::new()).with_context(mine.clone());
    assert!(owner.invoke(Message::user("Go.")).thread("t").await.unwrap().is_finished());
    mine.gate.add_permits(1);
    owner.continue_detached("t").await.expect("there is none");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 0, "the supervisor is a subagent");
}

#[tokio::test]
async fn request_can_be_cancelled_and_needs_a_checkpointer() {
    let mine = mine([miner(), done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    turn(&graph, "Dig.").await;
    let cancel = CancellationToken::new();
    mine.forget_begun();
    let waits = tokio::spawn(graph.continue_detached("t").cancel(cancel.clone()));
    mine.begun.acquire().await.unwrap().forget();
    cancel.cancel();
    assert!(matches!(waits.await.unwrap(), Err(RunError::Cancelled { .. })));
    mine.gate.add_permits(1);
    graph.continue_detached("t").await.expect("it continues");
    assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
    let none = Foreman::compile().with_context(mine);
    assert!(matches!(none.continue_detached("t").await, Err(RunError::NoCheckpointer { .. })));
}

/// Continues the subagent in a process that ends, or is killed, while it digs.
async fn continue_until_it_digs(saver: &MemorySaver, mine: &Mine, durability: Durability, is_killed: bool) {
    let process = Arc::new(Mortal::new(saver, usize::MAX));
    let graph = Foreman::compile().checkpointer(process.clone()).with_context(mine.clone());
    mine.forget_begun();
    let continues = tokio::spawn(graph.continue_detached("t").durability(durability));
    mine.begun.acquire().await.unwrap().forget();
    if is_killed {
        process.0.die();
    }
    continues.abort();
    assert!(continues.await.is_err());
}

#[tokio::test]
async fn subagent_that_has_failed_does_not_run_again() {
    let mine = mine([miner(), done(), done(), check(), done()]);
    let graph = foreman(&MemorySaver::new(), &mine);
    turn(&graph, "Dig.").await;
    mine.gate.close();
    mine.forget_begun();
    for _ in 0..2 {
        graph.continue_detached("t").await.expect("the subagent has failed");
    }
    turn(&graph, "Hello.").await;
    let state = turn(&graph, "And?").await;
    assert!(results(&state)[1].starts_with("`miner-1` failed"), "{:?}", results(&state));
    assert!(results(&state)[1].contains("semaphore closed"), "{:?}", results(&state));
    assert_eq!(statuses(&state), [BackgroundStatus::Failed]);
    assert_eq!(mine.begun.available_permits(), 1, "it ran once");
}

#[tokio::test(start_paused = true)]
async fn subagent_that_ends_its_process_three_times_fails() {
    for durability in [Durability::Async, Durability::Exit] {
        let mine = mine([miner(), done(), wait(), done()]);
        let saver = MemorySaver::new();
        turn(&foreman(&saver, &mine), "Dig.").await;
        // Stores the checkpoint at which the deaths count.
        continue_until_it_digs(&saver, &mine, durability, false).await;
        for _ in 0..3 {
            continue_until_it_digs(&saver, &mine, durability, true).await;
        }
        mine.gate.add_permits(1);
        let state = turn(&foreman(&saver, &mine), "And?").await;
        assert!(results(&state)[1].contains("each time its process died"), "{:?}", results(&state));
        assert_eq!((statuses(&state), mine.dug.load(Ordering::SeqCst)), (vec![BackgroundStatus::Failed], 0));
    }
}

#[tokio::test(start_paused = true)]
async fn subagent_that_is_stopped_in_order_does_not_fail() {
    let mine = mine([miner(), done(), wait(), done()]);
    let saver = MemorySaver::new();
    turn(&foreman(&saver, &mine), "Dig.").await;
    for _ in 0..5 {
        continue_until_it_digs(&saver, &mine, Durability::Async, false).await;
    }
    mine.gate.add_permits(1);
    let state = turn(&foreman(&saver, &mine), "And?").await;
    assert_eq!(results(&state)[1], "`miner-1` reported.\nfound");
}

/// Two turns and the work in between, each in a process that may die.
async fn lives(saver: &MemorySaver, mine: &Mine, commits: [usize; 3]) -> bool {
    let mut died = false;
    for (life, commits) in commits.into_iter().enumerate() {
        for commits in [commits, usize::MAX] {
            let graph = Foreman::compile().checkpointer(Mortal::new(saver, commits)).with_context(mine.clone());
            let is_new = graph.state("t").await.unwrap().is_finished();
            let ended = match life {
                1 => graph.continue_detached("t").await.map(|()| true),
                _ if is_new => graph.invoke(Message::user("Go.")).thread("t").await.map(|out| out.is_finished()),
                _ => graph.invoke(()).thread("t").await.map(|out| out.is_finished()),
            };
            match ended {
                Ok(is_finished) => {
                    assert!(is_finished);
                    break;
                }
                Err(error) => {
                    assert!(commits < usize::MAX, "{error}");
                    died = true;
                }
            }
        }
    }
    died
}

#[tokio::test]
async fn subagent_survives_a_death_at_each_commit() {
    for life in 0..3 {
        for commits in 0..100 {
            let mine = mine([miner(), done(), wait(), done()]);
            mine.gate.add_permits(100);
            let saver = MemorySaver::new();
            let mut limits = [usize::MAX; 3];
            limits[life] = commits;
            let died = lives(&saver, &mine, limits).await;
            let state = foreman(&saver, &mine).state("t").await.unwrap().values;
            let results = results(&state);
            assert!(results[1].ends_with("`miner-1` reported.\nfound"), "{life} {commits}: {results:?}");
            assert_eq!(statuses(&state), [BackgroundStatus::Reported], "{life} {commits}");
            if !died {
                assert!(life > 0 || commits > 2, "only {commits} commits in life {life}");
                break;
            }
        }
    }
}
