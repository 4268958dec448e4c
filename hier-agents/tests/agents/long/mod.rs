//! Conversations that are longer than their model can read.

mod costs;
mod listed;
mod summaries;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, AgentEnd, ChatRequest, Compact, Compaction, ModelError, Usage};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::call;

/// The token count of a provider, independent of the estimate: three characters per token.
fn tokens(request: &ChatRequest) -> u64 {
    let letters = |message: &Message| {
        let calls: usize = message.tool_calls().iter().map(|call| call.args.to_string().len() + call.name.len()).sum();
        message.text().len() + calls
    };
    let tools: usize = request.tools.iter().map(|tool| tool.parameters.to_string().len()).sum();
    ((request.messages.iter().map(letters).sum::<usize>() + tools) / 3) as u64
}

/// Returns true if the request is for a summary.
fn is_summary(request: &ChatRequest) -> bool {
    request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"))
}

/// A provider that refuses longer requests, reports its count, and fails the test on an invalid conversation.
fn provider(limit: u64, answer: impl Fn(&ChatRequest) -> Message + Send + Sync + 'static) -> ScriptedModel {
    ScriptedModel::try_reacting(move |request| {
        valid(&request.messages);
        let count = tokens(request);
        if count > limit {
            let reason = format!("{count} tokens > {limit} maximum");
            return Err(ModelError::TooLong { model: "fake".to_owned(), reason });
        }
        let message = answer(request);
        let usage = Usage::new(count, (message.text().len() / 3) as u64);
        Ok(message.with_usage(usage))
    })
}

/// Each result follows its call, no result is alone, and the first message after the instructions is the user's.
fn valid(messages: &Messages) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages.iter() {
        if let Some(id) = message.tool_call_id() {
            let at = open.iter().position(|open| *open == id);
            open.remove(at.unwrap_or_else(|| panic!("a result without a call: {message:?}")));
        }
        open.extend(message.tool_calls().iter().map(|call| &*call.id));
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
    let first = messages.iter().find(|message| !matches!(message.body, hier_agents::Body::System { .. }));
    assert!(matches!(first.unwrap().body, hier_agents::Body::User { .. }), "{first:?}");
}

/// Reads a page.
#[tool]
async fn read_page(number: u32) -> String {
    format!("page {number}: {}", "word ".repeat(100))
}

/// Reads a long page.
#[tool]
async fn long_page(number: u32) -> String {
    format!("page {number}: {}", "word ".repeat(300))
}

/// Gives much.
#[tool]
async fn huge() -> String {
    "x".repeat(668_000)
}

struct Desk {
    base: BaseContext,
    cheap: ScriptedModel,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

fn chat(limit: Option<u64>) -> CompiledGraph<BaseState, BaseContext> {
    let compact = Compact::new().context_tokens(limit);
    AgentBuilder::new("chat").system("You answer.").tool(read_page::TOOL).layer(compact).compile().unwrap()
}

fn summing_up(request: &ChatRequest) -> Message {
    if is_summary(request) {
        return Message::assistant("They talked.");
    }
    let last = request.messages.last().unwrap();
    if last.text().starts_with("read") { call("read_page", json!({"number": 1})) } else { Message::assistant("Yes.") }
}

async fn say(chat: &CompiledGraph<BaseState, BaseContext>, model: &ScriptedModel, text: &str) -> Outcome<BaseState> {
    let context = BaseContext::new(model.clone());
    chat.invoke(Message::user(text)).thread("t").context(context).await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn requests_stay_within_the_limit_for_ten_thousand_messages() {
    let limit = 4_000;
    let model = provider(limit, summing_up).without_requests();
    let long = (0..5_000).flat_map(|turn| {
        let asked = Message::user(format!("question {turn}: {}", "what about this? ".repeat(turn % 7)));
        [asked, Message::assistant(format!("answer {turn}")).with_usage(Usage::new(1_000_000, 5))]
    });
    let saver = MemorySaver::new();
    let chat = chat(Some(limit)).checkpointer(saver);
    let input = BaseState::update().messages(long.chain([Message::user("go on")]).collect::<Vec<_>>());
    let out = chat.invoke(input).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), out.state().messages.len()), (Some(&AgentEnd::Text), 10_002));
    let record = out.state().compaction.clone().expect("a record");
    assert!(record.cut.as_ref().is_some_and(|cut| cut.count > 9_000), "{record:?}");
    assert_eq!((&*record.summary, &*record.by), ("They talked.", "scripted"));
    let asked = model.call_count();
    // From here on it is one call a turn.
    let out = say(&chat, &model, "and then?").await;
    assert_eq!((model.call_count(), out.state().compaction.as_ref()), (asked + 1, Some(&record)));
}

#[tokio::test]
async fn long_conversation_continues_and_the_state_keeps_it_whole() {
    let limit = 3_000;
    let (model, saver) = (provider(limit, summing_up), MemorySaver::new());
    for turn in 0..120 {
        // Another process each time: only stored data remains.
        let chat = chat(Some(limit)).checkpointer(saver.clone());
        let text = if turn % 3 == 0 { format!("read {turn}") } else { format!("tell me more about {turn}") };
        let out = say(&chat, &model, &text).await;
        assert_eq!(out.ending(), Some(&AgentEnd::Text), "turn {turn}");
    }
    let state = chat(None).checkpointer(saver).state("t").await.unwrap();
    assert_eq!(state.values.messages.len(), 120 * 2 + 40 * 2);
    let summaries = model.requests().iter().filter(|request| is_summary(request)).count();
    assert!((1..40).contains(&summaries), "{summaries}");
    // Below the limit by a provider's count that the estimate does not know; none was refused.
    let most = model.requests().iter().map(tokens).max().unwrap();
    assert!((limit / 2..=limit).contains(&most), "{most}");
}

#[tokio::test]
async fn old_results_are_cleared_before_summarizing() {
    let limit = 3_000;
    let model = provider(limit, |request| {
        if request.messages.last().is_some_and(|last| last.text() == "read") {
            return call("long_page", json!({"number": 1}));
        }
        Message::assistant("Yes.")
    });
    let agent = AgentBuilder::new("chat").tool(long_page::TOOL).layer(Compact::new().context_tokens(limit));
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let mut out = say(&chat, &model, "read").await;
    while out.state().compaction.is_none() {
        out = say(&chat, &model, "read").await;
    }
    let record = out.state().compaction.clone().unwrap();
    assert!(record.cut.is_none() && record.cleared.is_some() && record.summary.is_empty(), "{record:?}");
    assert!(!model.requests().iter().any(is_summary));
    let sent = model.requests().last().unwrap().clone();
    let cleared = sent.messages.iter().find(|message| message.text().contains("was cleared to save space")).unwrap();
    let kept = sent.messages.iter().filter(|message| message.text().starts_with("page 1")).count();
    assert!(kept >= 1, "new messages are complete");
    // It can be read again: the tool is offered from now on, and reads the state.
    assert!(sent.tools.iter().any(|tool| tool.name == "read_earlier"));
    assert!(cleared.text().contains(cleared.id.as_deref().unwrap()));
}

#[tokio::test]
async fn read_earlier_returns_omitted_text() {
    let id = "8c0e";
    let reading = json!({"id": id});
    let model = ScriptedModel::new([
        call("read_earlier", reading),
        call("read_earlier", json!({"search": "SECRET"})),
        call("read_earlier", json!({"id": "nothing"})),
        call("read_earlier", json!({"id": id, "from": "8000"})),
        Message::assistant("Done."),
    ]);
    let chat = chat(Some(1_000_000)).checkpointer(MemorySaver::new());
    let talk = [
        Message::user("hello"),
        Message::assistant(format!("the secret is {}", "x".repeat(9_000))).with_id(id),
        Message::user("what was it?"),
    ];
    let mut record = Compaction::default();
    record.cut = hier_agents::MessageMark::behind(&talk.clone().into(), 2);
    record.summary = "There was a secret.".to_owned();
    let input = BaseState::update().messages(talk.to_vec()).compaction(Some(Box::new(record)));
    let out = chat.invoke(input).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
    let results: Vec<_> =
        out.state().messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect();
    assert!(results[0].starts_with("the secret is xxx") && results[0].contains("go on with \"from\": 8000"));
    assert!(results[1].starts_with("8c0e (assistant): …the secret is"), "{}", results[1]);
    assert!(results[2].contains("there is no message with the id `nothing`"));
    assert_eq!(results[3], "x".repeat(1_014), "a number may be a string");
    let sent = &model.requests()[0].messages;
    assert!(sent.get(1).unwrap().text().contains("There was a secret."));
    assert_eq!(sent.len(), 3, "instructions, summary, question: {sent:?}");
}

#[tokio::test]
async fn refused_request_is_compacted_and_sent_again() {
    // Its context size is unknown.
    let limit = 1_500;
    let model = provider(limit, summing_up);
    let chat = chat(None).checkpointer(MemorySaver::new());
    for turn in 0..60 {
        let out = say(&chat, &model, &format!("turn {turn}: {}", "and so on ".repeat(20))).await;
        assert_eq!(out.ending(), Some(&AgentEnd::Text), "turn {turn}");
    }
    let refused = model.requests().iter().filter(|request| tokens(request) > limit).count();
    assert!((1..15).contains(&refused), "{refused}");

    // A model that refuses everything gets one more request.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let refusing = ScriptedModel::try_reacting(move |request| {
        if is_summary(request) {
            return Ok(Message::assistant("short"));
        }
        count.fetch_add(1, Ordering::Relaxed);
        Err(ModelError::TooLong { model: "fake".to_owned(), reason: "always".to_owned() })
    });
    let context = BaseContext::new(refusing);
    let error = chat.invoke(Message::user("more")).thread("t").context(context).await.unwrap_err();
    assert!(error.to_string().contains("too long for the model"), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn huge_result_is_clipped_in_requests_only() {
    let limit = 2_000;
    let model = provider(limit, |request| {
        if request.messages.iter().any(|message| message.tool_call_id().is_some()) {
            Message::assistant("Read.")
        } else {
            call("huge", json!({}))
        }
    });
    let agent = AgentBuilder::<BaseState>::new("chat").tool(huge::TOOL).layer(Compact::new().context_tokens(limit));
    let chat = agent.compile().unwrap().checkpointer(MemorySaver::new());
    let out = say(&chat, &model, "go").await;
    assert_eq!(out.state().current_agent_report, "Read.");
    assert_eq!(out.state().messages.get(2).unwrap().text().len(), 668_000);
    let sent = model.requests()[1].messages.get(2).unwrap().text();
    assert!(sent.len() < 6_000 && sent.contains("characters are omitted here"), "{}", sent.len());
    assert!(!model.requests().iter().any(is_summary), "there is nothing to sum up");
}
