//! Several layers that would say which part of a conversation is sent: the innermost does.

use std::collections::VecDeque;
use std::sync::Mutex;

use hier_agents::layer::Inherited;
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, ChatRequest, Compact};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{call, report};

graph! {
    /// Its own conversation is short, and has much room.
    Desk<BaseState> = Agent {
        subagents: [Reader {}, Helper {}],
        layers: [Inherited(Compact { context_tokens: 1_000 }), Compact { context_tokens: 100_000 }],
    }
}

graph! {
    /// Has less room than its supervisor says.
    Reader<BaseState> = Agent { tools: [page], layers: [Compact { context_tokens: 600 }] }
}

graph! {
    /// Has the room that its supervisor says.
    Helper<BaseState> = ReactGraph { tools: [page] }
}

/// Reads a page.
#[tool]
async fn page(number: u32) -> String {
    format!("page {number}: {}", "word ".repeat(100))
}

fn letters(request: &ChatRequest) -> usize {
    request.messages.iter().map(|message| message.text().len()).sum()
}

/// The longest question that was asked while a subagent read six pages.
async fn longest(subagent: &str, end: Message) -> usize {
    let pages = (0..6).map(|number| call("page", json!({ "number": number })));
    let script = [call(subagent, json!({"task": "read"}))].into_iter().chain(pages);
    let script = Mutex::new(script.chain([end, Message::assistant("done")]).collect::<VecDeque<_>>());
    let model = ScriptedModel::reacting(move |request| {
        let is_summary = request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"));
        let next = || script.lock().unwrap().pop_front().unwrap();
        if is_summary { Message::assistant("They read.") } else { next() }
    });
    let out = Desk::compile().invoke(Message::user("go")).context(BaseContext::new(model.clone())).await;
    assert_eq!(out.unwrap().state().current_agent_report, "done");
    model.requests().iter().map(letters).max().unwrap()
}

#[tokio::test]
async fn own_compaction_replaces_an_inherited_one() {
    let own = longest("reader", Message::assistant("read")).await;
    let inherited = longest("helper", report("read")).await;
    // Six pages are 3,000 letters; a token has four at most.
    assert!((500..600 * 4).contains(&own) && (own + 1..1_000 * 4).contains(&inherited), "{own}, {inherited}");
}

#[test]
fn two_compactions_for_one_agent_are_refused() {
    let built = |first: bool| {
        let agent = AgentBuilder::<BaseState>::new("desk").layer(Compact::new().at(0.5));
        if first { agent.layer(Compact::new()) } else { agent.layer(Inherited::new(Compact::new())) }.compile()
    };
    let error = built(true).expect_err("two in one agent").to_string();
    assert!(error.contains("the layers `Compact` and `Compact` both compact the conversation"), "{error}");
    assert!(built(false).is_ok(), "one is for those below");
}
