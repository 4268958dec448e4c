//! The shares and counts of background subagents are equal before and after a restart.

use std::sync::Arc;

use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;
use hier_agents::{Budget, ChatRequest};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::{Outcome, Result};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::background::results;
use crate::support::{Filing, FilingUpdate, call, calls};

/// The context: a gate in front of the work of diggers.
#[derive(Clone)]
struct Mine {
    base: BaseContext,
    gate: Arc<Semaphore>,
}

impl AsRef<BaseContext> for Mine {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Mine {
    fn new(base: BaseContext, open: usize) -> Self {
        Self { base, gate: Arc::new(Semaphore::new(open)) }
    }
}

graph! {
    /// Leads.
    Lead<Filing, Mine> = Agent {
        tools: [look],
        subagents: [Digger { background: true }, Helper, Foreman { background: true }],
        layers: [Inherited(Limit { model_calls: 12 })],
        max_repeats: 50,
    }
}

graph! {
    /// Digs, and looks as long as it may.
    Digger<Filing, Mine> = Agent { tools: [dig, look] }
}

graph! {
    /// Looks as long as it may, with the share of its supervisor.
    Helper<Filing, Mine> = Agent { tools: [look, help] }
}

graph! {
    /// Has a team, one in the background.
    Foreman<Filing, Mine> = Agent { tools: [look], subagents: [Digger { background: true }, Clerk {}] }
}

graph! {
    /// Looks, and then breaks.
    Clerk<Filing, Mine> = Agent { tools: [look], subagents: [Lamp {}] }
}

graph! {
    /// Fails.
    Lamp<Filing, Mine> = SimpleGraph { compute: breaks }
}

async fn breaks() -> Result<FilingUpdate> {
    Err(NodeError::permanent("the lamp is broken"))
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Mine>) -> Result<String> {
    run.context().gate.acquire().await?.forget();
    Ok("dug".to_owned())
}

/// Looks at a page.
#[tool]
async fn look() -> String {
    "a page".to_owned()
}

/// Helps.
#[tool]
async fn help() -> String {
    "helped".to_owned()
}

/// The model of all agents. The lead makes these calls, and the others those of their scripts. After its calls, each agent
/// looks on.
fn team(lead: impl IntoIterator<Item = Message>) -> ScriptedModel {
    let lead: Vec<Message> = lead.into_iter().collect();
    ScriptedModel::reacting(move |request: &ChatRequest| {
        let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let script = if has("foreman") {
            lead.clone()
        } else if has("clerk") {
            let rest = call("wait_for_subagents", json!({ "handles": ["digger-1"], "seconds": 1 }));
            vec![call("digger", json!({ "task": "dig" })), rest, call("clerk", json!({ "task": "look" }))]
        } else if has("lamp") {
            vec![call("look", json!({})), call("lamp", json!({ "task": "shine" }))]
        } else if has("dig") {
            vec![call("look", json!({})), call("dig", json!({}))]
        } else {
            Vec::new()
        };
        let made = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
        script.into_iter().nth(made).unwrap_or_else(|| call("look", json!({})))
    })
}

fn start(name: &str) -> Message {
    call(name, json!({ "task": "work" }))
}

/// Runs the lead in one process, or in a new one before each request to its model.
async fn run(model: &ScriptedModel, restarts: bool) -> Filing {
    let saver = MemorySaver::new();
    let process = || Lead::compile().checkpointer(saver.clone());
    let mine = || Mine::new(BaseContext::new(model.clone()), 0);
    let mut is_first = true;
    loop {
        let graph = process();
        let stops: &[&str] = if restarts { &["model"] } else { &[] };
        let out = if is_first {
            graph.invoke(Message::user("Go.")).thread("t").interrupt_before(stops.to_vec()).context(mine()).await
        } else {
            graph.invoke(()).thread("t").interrupt_before(stops.to_vec()).context(mine()).await
        };
        is_first = false;
        match out.expect("it runs") {
            Outcome::Stopped(_) => {}
            Outcome::Finished(state) => return state,
            out @ Outcome::Interrupted(_) => panic!("{out:?}"),
        }
    }
}

/// The requests to models until the limit of the lead is reached.
async fn requests(script: Vec<Message>, restarts: bool) -> (usize, Vec<String>) {
    let model = team(script);
    let state = run(&model, restarts).await;
    (model.requests().len(), results(&state))
}

#[tokio::test(start_paused = true)]
async fn limit_counts_the_work_of_a_cancelled_subagent() {
    for restarts in [false, true] {
        let waits = call("wait_for_subagents", json!({ "seconds": 1 }));
        let cancels = call("cancel_subagent", json!({ "handle": "digger-1" }));
        let (requests, results) = requests(vec![start("digger"), waits, cancels], restarts).await;
        assert_eq!(results[2], "Cancelled `digger-1`.");
        assert_eq!(requests, 12, "restarts: {restarts}");
    }
}

/// The foreman fails with its clerk, before it has the counts of the clerk and of its digger.
#[tokio::test(start_paused = true)]
async fn limit_counts_the_work_of_a_failed_subagent_and_those_below() {
    for restarts in [false, true] {
        let waits = || call("wait_for_subagents", json!({}));
        let (requests, results) = requests(vec![start("foreman"), waits()], restarts).await;
        assert!(results[1].contains("`foreman-1` failed") && results[1].contains("the lamp is broken"), "{results:?}");
        assert_eq!(requests, 12, "restarts: {restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_counted_once_if_two_calls_end_a_subagent() {
    let cancel = || ("cancel_subagent", json!({ "handle": "digger-1" }));
    let waits = call("wait_for_subagents", json!({ "seconds": 1 }));
    let both = calls([("wait_for_subagents", json!({})), cancel(), cancel()]);
    for restarts in [false, true] {
        let (requests, _) = requests(vec![start("digger"), waits.clone(), both.clone()], restarts).await;
        assert_eq!(requests, 12, "restarts: {restarts}");
    }
}

graph! {
    /// Leads without a limit.
    Chief<Filing, Mine> = Agent { tools: [look], subagents: [Digger { background: true }, Helper, Foreman { background: true }] }
}

/// Two diggers of one answer are continued by the model node of another process.
#[tokio::test(start_paused = true)]
async fn shares_of_an_answer_are_equal_after_a_restart() {
    let both = calls([("digger", json!({ "task": "dig" })), ("digger", json!({ "task": "dig" }))]);
    let model = team([both, call("wait_for_subagents", json!({})), Message::assistant("done")]);
    let saver = MemorySaver::new();
    let process = || -> CompiledGraph<Filing, Mine> { Chief::compile().checkpointer(saver.clone()) };
    let mine = |open| Mine::new(BaseContext::new(model.clone()).budget(Budget::new().model_calls(13)), open);
    let first = process().invoke(Message::user("Go.")).thread("t").interrupt_before(["model"]);
    let mut stopped = first.context(mine(0)).await.expect("it stops");
    assert!(matches!(stopped, Outcome::Stopped(_)), "{stopped:?}");
    // Before the first request, and before the second.
    stopped = process().invoke(()).thread("t").interrupt_before(["model"]).context(mine(0)).await.expect("it stops");
    assert!(matches!(stopped, Outcome::Stopped(_)), "{stopped:?}");
    let end = process().invoke(()).thread("t").context(mine(2)).await.expect("it ends");
    let report = &results(end.state())[2];
    assert_eq!(report.matches("(model calls: 4)").count(), 2, "of 13 calls, one is kept for the report: {report}");
}

/// A share of the second digger would exceed the limit: the helper spends what the first has left.
#[tokio::test(start_paused = true)]
async fn reserved_shares_never_exceed_the_limit() {
    let three = calls([
        ("digger", json!({ "task": "dig" })),
        ("helper", json!({ "task": "help" })),
        ("digger", json!({ "task": "dig" })),
    ]);
    let model = team([three, call("wait_for_subagents", json!({}))]);
    let mine = Mine::new(BaseContext::new(model.clone()).budget(Budget::new().model_calls(13)), 2);
    let budget = mine.base.budget.clone().expect("it has one");
    let out = Chief::compile().invoke(Message::user("Go.")).context(mine).await.expect("it ends");
    assert!(out.is_finished());
    assert!(budget.spent().model_calls <= 13, "{:?}", budget.spent());
    assert_eq!(model.requests().len() as u64, budget.spent().model_calls);
}
