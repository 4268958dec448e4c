//! Work of background subagents outside of the process: it is cleaned up if a subagent is given up, and not if it stops
//! with its supervisor and is continued later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::Approval;
use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, Retry};
use hier_core::{CancellationToken, Result, RunError};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::background::team;
use crate::support::{Filing, call};

/// A site with one pit, which is dug by a machine outside of the process.
#[derive(Clone)]
struct Site {
    base: BaseContext,
    digging: Arc<Semaphore>,
    dug: Arc<Semaphore>,
    stopped: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Site {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Site {
    fn new(script: impl IntoIterator<Item = Message>) -> Self {
        let model: ScriptedModel = team(script, |number, _| match number {
            0 => Message::call("dig", json!({})),
            _ => Message::assistant("dug"),
        });
        let (digging, dug) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        Self { base: BaseContext::new(model), digging, dug, stopped: Arc::default() }
    }

    fn stopped(&self) -> usize {
        self.stopped.load(Ordering::SeqCst)
    }
}

graph! {
    /// Leads.
    Foreman<Filing, Site> = Agent { tools: [watch, pay], subagents: [Digger { background: true }] }
}

graph! {
    /// Digs.
    Digger<Filing, Site> = Agent { tools: [dig] }
}

graph! {
    /// Gives a foreman up that takes too long.
    Limited<Filing, Site> = Graph { nodes: [Foreman { timeout: 10s }], edges: [START >> Foreman >> END] }
}

graph! {
    /// Lets a foreman that takes too long try it once more.
    Repeated<Filing, Site> = Graph {
        nodes: [Foreman { timeout: 10s, retry: twice() }],
        edges: [START >> Foreman >> END],
    }
}

fn twice() -> Retry {
    Retry { interval: Duration::from_secs(1), jitter: 0.0, ..Retry::attempts(2) }
}

/// Waits until the machine digs.
#[tool]
async fn watch(run: &Run<Site>) -> Result<String> {
    run.context().digging.acquire().await?.forget();
    Ok("it digs".to_owned())
}

/// Digs.
#[tool]
async fn dig(run: &Run<Site>) -> Result<String> {
    let site = run.context().clone();
    site.digging.add_permits(1);
    let stop = async move {
        site.stopped.fetch_add(1, Ordering::SeqCst);
    };
    drop(run.with_cleanup(run.context().dug.acquire(), stop).await?);
    Ok("dug".to_owned())
}

/// Pays.
#[tool(needs_approval)]
async fn pay() -> String {
    "paid".to_owned()
}

fn begin() -> [Message; 2] {
    [call("digger", json!({"task": "a pit"})), call("watch", json!({}))]
}

#[tokio::test]
async fn cancelled_subagent_is_cleaned_up() {
    let cancel = call("cancel_subagent", json!({"handle": "digger-1"}));
    for last in [vec![cancel, Message::assistant("done")], vec![Message::assistant("done")]] {
        let site = Site::new(begin().into_iter().chain(last));
        let out = Foreman::compile().invoke(Message::user("Go.")).context(site.clone()).await.unwrap();
        assert!(out.is_finished());
        assert_eq!(site.stopped(), 1);
    }
}

#[tokio::test]
async fn subagents_of_a_cancelled_run_are_cleaned_up() {
    let site = Site::new([call("digger", json!({"task": "a pit"})), call("wait_for_subagents", json!({}))]);
    let token = CancellationToken::new();
    let foreman = Foreman::compile().checkpointer(MemorySaver::new());
    let run = foreman.invoke(Message::user("Go.")).thread("t").context(site.clone()).cancel(token.clone());
    let run = tokio::spawn(async move { run.await.map(|_| ()) });
    site.digging.acquire().await.unwrap().forget();
    token.cancel();
    run.await.unwrap().unwrap_err();
    assert_eq!(site.stopped(), 1);
}

/// Returns the graph without a checkpointer, and with one.
fn both(compile: fn() -> CompiledGraph<Filing, Site>) -> [CompiledGraph<Filing, Site>; 2] {
    [compile(), compile().checkpointer(MemorySaver::new())]
}

/// Lets all tasks that can run do so.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn subagent_of_a_dropped_run_is_given_up_unless_the_run_is_durable() {
    for (given_up, foreman) in [1, 0].into_iter().zip(both(Foreman::compile)) {
        let site = Site::new([call("digger", json!({"task": "a pit"})), call("wait_for_subagents", json!({}))]);
        let run = foreman.invoke(Message::user("Go.")).thread("t").context(site.clone());
        let run = tokio::spawn(async move { run.await.map(|_| ()) });
        site.digging.acquire().await.unwrap().forget();
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        settled().await;
        assert_eq!(site.stopped(), given_up);
    }
}

#[tokio::test]
async fn subagent_of_a_failed_run_is_given_up_unless_the_run_is_durable() {
    for (given_up, foreman) in [1, 0].into_iter().zip(both(Foreman::compile)) {
        let site = Site::new(begin().into_iter().chain([call("wait_for_subagents", json!({}))]));
        let run = foreman.invoke(Message::user("Go.")).thread("t").context(site.clone()).recursion_limit(5);
        assert!(matches!(run.await.unwrap_err(), RunError::RecursionLimit { .. }));
        assert_eq!(site.stopped(), given_up);
    }
}

/// A supervisor that runs again continues its subagents if it has checkpoints, and starts others if not.
#[tokio::test(start_paused = true)]
async fn subagent_of_a_supervisor_that_a_timeout_gives_up_is_cleaned_up() {
    type Compile = fn() -> CompiledGraph<Filing, Site>;
    for (compile, stopped) in [(Limited::compile as Compile, [1, 1]), (Repeated::compile, [2, 1])] {
        for (stopped, graph) in stopped.into_iter().zip(both(compile)) {
            let site = Site::new([call("digger", json!({"task": "a pit"})), call("wait_for_subagents", json!({}))]);
            let input = Filing::update().messages([Message::user("Go.")]);
            let failed = graph.invoke(input).thread("t").context(site.clone()).await.unwrap_err();
            assert!(failed.to_string().contains("took longer than 10s"), "{failed}");
            assert_eq!(site.stopped(), stopped);
        }
    }
}

#[tokio::test]
async fn subagent_that_waits_for_an_answer_of_its_supervisor_is_not_cleaned_up() {
    let wait = call("wait_for_subagents", json!({}));
    let site = Site::new(begin().into_iter().chain([call("pay", json!({})), wait, Message::assistant("done")]));
    let foreman = Foreman::compile().checkpointer(MemorySaver::new());
    let out = foreman.invoke(Message::user("Go.")).thread("t").context(site.clone()).await.unwrap();
    assert!(!out.is_finished());
    site.dug.add_permits(1);
    let out = foreman.invoke(Command::resume(Approval::Approve)).thread("t").context(site.clone()).await.unwrap();
    assert!(out.is_finished());
    assert_eq!(site.stopped(), 0);
}
