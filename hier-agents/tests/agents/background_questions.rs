//! Questions of background subagents: each keeps its id until it is answered.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{ApprovalRequest, ChatRequest};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::{Outcome, Question, Result};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::background::results;
use crate::support::{Filing, call, calls};

/// The context: a gate in front of the work of diggers.
#[derive(Clone)]
struct Office {
    base: BaseContext,
    gate: Arc<Semaphore>,
}

impl AsRef<BaseContext> for Office {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

impl Office {
    fn new(open: usize) -> Self {
        Self { base: BaseContext::new(ScriptedModel::reacting(answer)), gate: Arc::new(Semaphore::new(open)) }
    }
}

graph! {
    /// Directs.
    Director<Filing, Office> = Agent { subagents: [Lead { background: true }] }
}

graph! {
    /// Leads.
    Lead<Filing, Office> = Agent { subagents: [Payer { background: true }] }
}

graph! {
    /// Waits for a while.
    Manager<Filing, Office> = Agent { subagents: [Digger { background: true }] }
}

graph! {
    /// Pays.
    Payer<Filing, Office> = Agent { tools: [pay] }
}

graph! {
    /// Digs, and pays.
    Digger<Filing, Office> = Agent { tools: [dig, pay] }
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Office>) -> Result<String> {
    run.context().gate.acquire().await?.forget();
    Ok("dug".to_owned())
}

/// Pays.
#[tool(needs_approval)]
async fn pay(euros: u32) -> String {
    format!("paid {euros}")
}

/// The model of all agents: each makes its calls in order, and reports what it has read.
fn answer(request: &ChatRequest) -> Message {
    let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let wait = || call("wait_for_subagents", json!({}));
    let is_deep = || request.messages.iter().any(|message| message.text().contains("deep"));
    let script = if has("dig") && is_deep() {
        vec![call("dig", json!({})), call("pay", json!({ "euros": 1 }))]
    } else if has("dig") {
        vec![call("pay", json!({ "euros": 2 }))]
    } else if has("pay") {
        vec![calls([("pay", json!({ "euros": 7 })), ("pay", json!({ "euros": 8 }))])]
    } else if has("digger") {
        let both = calls([("digger", json!({ "task": "deep" })), ("digger", json!({ "task": "flat" }))]);
        vec![both, call("wait_for_subagents", json!({ "seconds": 5 }))]
    } else if has("payer") {
        vec![call("payer", json!({ "task": "pay" })), wait()]
    } else {
        vec![call("lead", json!({ "task": "lead" })), wait()]
    };
    let made = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
    let texts = request.messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text);
    script.into_iter().nth(made).unwrap_or_else(|| Message::assistant(texts.collect::<Vec<_>>().join("; ")))
}

fn open(outcome: &Outcome<Filing>) -> Vec<Question> {
    let Outcome::Interrupted(asked) = outcome else { panic!("{outcome:?}") };
    asked.questions.clone()
}

fn ids(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(|question| &*question.id).collect()
}

fn euros(question: &Question) -> serde_json::Value {
    question.parse::<ApprovalRequest>().expect("an approval").call.args["euros"].clone()
}

fn approve(question: &Question) -> Command<Filing> {
    Command::answers([(&question.id, json!({ "decision": "approve" }))])
}

/// Answers one of two questions in a process, and the other in the next.
async fn answers_one_by_one(compile: fn() -> CompiledGraph<Filing, Office>) {
    for first in [0, 1] {
        let saver = MemorySaver::new();
        let process = || compile().checkpointer(saver.clone());
        let out = process().invoke(Message::user("Go.")).thread("t").context(Office::new(0)).await.expect("a stop");
        let asked = open(&out);
        assert!(asked.len() == 2 && asked[0].id != asked[1].id, "{:?}", ids(&asked));
        let out = process().invoke(approve(&asked[first])).thread("t").context(Office::new(0)).await.expect("a stop");
        assert_eq!(ids(&open(&out)), [&*asked[1 - first].id], "the other question keeps its id");
        let out = process().invoke(()).thread("t").context(Office::new(0)).await.expect("a stop");
        assert_eq!(ids(&open(&out)), [&*asked[1 - first].id], "a restart does not change it");
        let again = process().invoke(approve(&asked[first])).thread("t").context(Office::new(0)).await;
        assert!(again.expect_err("it is answered").to_string().contains("has been answered"));
        let end = process().invoke(approve(&asked[1 - first])).thread("t").context(Office::new(0)).await;
        let end = end.expect("an end");
        assert!(end.is_finished() && results(end.state())[1].contains("paid 7; paid 8"), "{:?}", results(end.state()));
    }
}

#[tokio::test]
async fn unanswered_question_of_a_subagent_keeps_its_id() {
    answers_one_by_one(Lead::compile).await;
}

#[tokio::test]
async fn unanswered_question_keeps_its_id_through_several_levels() {
    answers_one_by_one(Director::compile).await;
}

/// The first subagent asks later than the second.
#[tokio::test(start_paused = true)]
async fn later_question_of_another_subagent_does_not_take_the_id() {
    let saver = MemorySaver::new();
    let process = || Manager::compile().checkpointer(saver.clone());
    let out = process().invoke(Message::user("Go.")).thread("t").context(Office::new(0)).await.expect("a stop");
    let asked = open(&out);
    assert_eq!(asked.iter().map(euros).collect::<Vec<_>>(), [2]);
    let out = process().invoke(()).thread("t").context(Office::new(1)).await.expect("a stop");
    let later = open(&out);
    assert_eq!(later.iter().map(euros).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(later[1].id, asked[0].id, "the question keeps its id");
    assert_ne!(later[0].id, asked[0].id, "a new question has a new id");
}
