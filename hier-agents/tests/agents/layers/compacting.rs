//! Several layers that would say which part of a conversation is sent: the innermost does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hier_agents::layer::{Inherited, Layer, Limit, ModelCall, ModelReply, NextModel};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, ChatRequest, Compact};
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, report};

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

/// Writes the last text of the model.
struct LastText;

#[async_trait]
impl Layer<Filing, BaseContext> for LastText {
    async fn model_call(
        &self,
        call: ModelCall<'_, Filing, BaseContext>,
        next: NextModel<'_, Filing, BaseContext>,
    ) -> Result<ModelReply<Filing>> {
        let reply = next.call(call).await?;
        let text = reply.text().unwrap_or_default();
        Ok(reply.write(Filing::update().draft(text)))
    }
}

/// The layer also sees the request for the summary. Only its write for the reply counts.
#[tokio::test]
async fn inner_layer_can_write_a_plain_channel_for_summary_and_reply() {
    let reader = AgentBuilder::<Filing>::new("reader").tool(page::TOOL);
    let reader = reader.layer(Compact::new().context_tokens(600)).layer(LastText).compile().unwrap();
    let summaries = Arc::new(AtomicUsize::new(0));
    let (counted, pages) = (summaries.clone(), AtomicUsize::new(0));
    let model = ScriptedModel::reacting(move |request| {
        if request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize")) {
            counted.fetch_add(1, Ordering::Relaxed);
            return Message::assistant("They read.");
        }
        match pages.fetch_add(1, Ordering::Relaxed) {
            number @ 0..6 => call("page", json!({ "number": number })),
            _ => Message::assistant("done"),
        }
    });
    let out =
        reader.invoke(Filing::update().messages(Message::user("go"))).context(BaseContext::new(model)).await.unwrap();
    assert_eq!(out.state().draft, "done");
    assert!(summaries.load(Ordering::Relaxed) > 0);
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

graph! {
    /// Compacts the conversations of its subagents, too.
    Chief<BaseState> = Agent { subagents: [Counter {}], layers: [Inherited(Compact { context_tokens: 1_000 })] }
}

graph! {
    /// Counts its requests.
    Counter<BaseState> = Agent { tools: [page], max_iterations: 60, layers: [Limit { model_calls: 200 }] }
}

/// The subagent's own layer counts the summaries that the inherited layer requests.
#[tokio::test]
async fn own_layers_count_the_summaries_of_an_inherited_compaction() {
    let read = AtomicUsize::new(0);
    let model = ScriptedModel::reacting(move |request| {
        let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        if request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize")) {
            Message::assistant("They read.")
        } else if has("counter") {
            let is_done = request.messages.iter().any(|message| message.tool_call_id().is_some());
            if is_done { Message::assistant("done") } else { call("counter", json!({"task": "read"})) }
        } else {
            let number = read.fetch_add(1, Ordering::Relaxed);
            let page = call("page", json!({ "number": number }));
            let reply = Message::calls("and so on ".repeat(9), page.tool_calls().to_vec());
            if number < 40 { reply } else { Message::assistant("read") }
        }
    });
    let out = Chief::compile().invoke(Message::user("go")).context(BaseContext::new(model.clone())).await.unwrap();
    let requests = model.requests();
    let is_summary = |request: &&ChatRequest| request.messages.get(0).unwrap().text().starts_with("You summarize");
    assert!(requests.iter().filter(is_summary).count() > 0, "there are summaries");
    let of_chief = requests.iter().filter(|request| request.tools.iter().any(|tool| tool.name == "counter")).count();
    let counted = out.state().layer_counts.get("counter/0:Limit model_calls");
    assert_eq!(counted, (requests.len() - of_chief) as u64);
}
