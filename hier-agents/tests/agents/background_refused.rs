//! Detached subagents under a limit, and calls about background subagents next to refused calls.

use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;
use hier_agents::{AgentEnd, ChatRequest};
use hier_core::Outcome;
use hier_core::checkpoint::MemorySaver;
use hier_core::message::Body;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::background::results;
use crate::support::{Filing, call, calls};

graph! {
    /// Leads, with a limit for all.
    Boss<Filing> = Agent {
        tools: [look],
        subagents: [Buyer { detached: true }],
        layers: [Inherited(Limit { model_calls: 8 })],
    }
}

graph! {
    /// Buys, looks and reports.
    Buyer<Filing> = Agent { tools: [buy, look] }
}

graph! {
    /// Refuses each repeated call.
    Strict<Filing> = Agent { subagents: [Buyer { background: true }], max_repeats: 1 }
}

/// Looks at a page.
#[tool]
async fn look(page: u32) -> String {
    format!("page {page}")
}

/// Buys.
#[tool(needs_approval)]
async fn buy(euros: u32) -> String {
    format!("bought for {euros}")
}

/// The supervisor's replies in the order of the conversation. The buyer buys, looks and reports.
fn team(boss: impl IntoIterator<Item = Message>) -> ScriptedModel {
    let boss: Vec<Message> = boss.into_iter().collect();
    ScriptedModel::reacting(move |request: &ChatRequest| {
        let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let replies = request.messages.iter().filter(|message| matches!(message.body, Body::Assistant { .. })).count();
        match (has("check_subagents"), replies) {
            (true, _) => boss[replies].clone(),
            (false, 0) => call("buy", json!({ "euros": 5 })),
            (false, 1) => call("look", json!({ "page": 9 })),
            _ => Message::assistant("bought"),
        }
    })
}

fn buyer() -> Message {
    call("buyer", json!({ "task": "ore" }))
}

/// The counts of a turn start at 0. The subagent continues with the counts of the turn that started it.
#[tokio::test]
async fn detached_subagent_of_an_earlier_turn_does_not_use_up_the_limit() {
    let looks = (1..=4).map(|page| call("look", json!({ "page": page })));
    let first = looks.chain([buyer(), Message::assistant("started")]);
    let wait = call("wait_for_subagents", json!({}));
    let model = team(first.chain([wait, Message::assistant("done")]));
    let boss = Boss::compile().checkpointer(MemorySaver::new()).with_context(BaseContext::new(model));
    let out = boss.invoke(Message::user("Buy.")).thread("t").await.expect("the turn ends");
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    let out = boss.invoke(Message::user("And?")).thread("t").await.expect("it asks");
    let Outcome::Interrupted(asked) = out else { panic!("{out:?}") };
    let answer = Command::answers([(&asked.questions[0].id, json!({ "decision": "approve" }))]);
    let out = boss.invoke(answer).thread("t").await.expect("the turn ends");
    assert_eq!(results(out.state()).last().map(String::as_str), Some("`buyer-1` reported.\nbought"));
    assert_eq!(out.ending(), Some(&AgentEnd::Text), "the turn has made two of its requests");
    // The work of the subagent counts once it has ended: three requests of its own.
    assert_eq!(out.state().base.layer_counts.get("boss/0:Limit model_calls"), 5);
}

#[tokio::test(start_paused = true)]
async fn refused_check_does_not_prevent_another_call_from_collecting() {
    let check = || ("check_subagents", json!({}));
    let both = calls([check(), ("wait_for_subagents", json!({ "seconds": 1 }))]);
    let model = team([buyer(), calls([check()]), both, Message::assistant("done")]);
    let strict = Strict::compile().checkpointer(MemorySaver::new()).with_context(BaseContext::new(model));
    let out = strict.invoke(Message::user("Buy.")).thread("t").await.expect("it asks");
    let Outcome::Interrupted(asked) = out else { panic!("{out:?}") };
    let results = results(&asked.state);
    assert!(results[2].contains("not called: it had the same result"), "{results:?}");
    assert_eq!(results.len(), 3, "the second call waits for the answer: {results:?}");
}
