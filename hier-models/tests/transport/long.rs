//! Shortened conversations are valid for each provider. A judge per dialect checks the real requests against the
//! provider's rules.

use hier_agents::{
    ChatModel, ChatRequest, Clipping, Compaction, Content, Message, MessageMark, Messages, Part, Reasoning, ToolCall,
    compacted,
};
use hier_models::Model;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::providers::{Provider, SIGNED, all};
use crate::support::{Reply, Server};

/// A step of the conversation.
#[derive(Clone, Debug)]
enum Said {
    System,
    User(usize),
    Image,
    /// The model answers with this much text and this many calls, with or without thoughts.
    Model(usize, usize, bool),
    /// A call without a result gets one.
    Result(usize),
    Orphan,
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        1 => Just(Said::System),
        4 => (0..1_500_usize).prop_map(Said::User),
        1 => Just(Said::Image),
        5 => (0..1_500_usize, 0..4_usize, any::<bool>()).prop_map(|(text, calls, thinks)| Said::Model(text, calls, thinks)),
        6 => (0..1_500_usize).prop_map(Said::Result),
        1 => Just(Said::Orphan),
    ]
}

/// Builds the conversation of these steps.
fn talk(said: &[Said], thoughts: &[Reasoning]) -> Messages {
    let (mut list, mut open) = (Vec::new(), Vec::<ToolCall>::new());
    for (place, next) in said.iter().enumerate() {
        let call = |id: String| ToolCall { name: "look".to_owned(), args: json!({ "what": place }), id };
        list.push(match *next {
            Said::System => Message::system(format!("rule {place}")),
            Said::User(length) => Message::user("u".repeat(length)),
            Said::Image => Message::user(Content::parts([Part::text("see"), Part::image_data("image/png", "aGk=")])),
            Said::Model(length, calls, thinks) => {
                let made: Vec<_> = (0..calls).map(|number| call(format!("call-{place}-{number}"))).collect();
                open.extend(made.iter().cloned());
                let own = thoughts.iter().filter(|_| thinks && calls > 0).cloned().map(|thought| match thought.call {
                    Some(_) => thought.of_call(&made[0].id),
                    None => thought,
                });
                Message::calls("a".repeat(length), made.clone()).with_reasoning(own)
            }
            Said::Result(_) if open.is_empty() => continue,
            Said::Result(length) => Message::tool(&open.remove(place % open.len()), "r".repeat(length)),
            Said::Orphan => Message::tool(&call("nobody".to_owned()), "lost"),
        });
    }
    list.into()
}

/// A violated rule, in the provider's wording.
type Judged = Result<(), String>;

fn rule(holds: bool, what: impl Into<String>) -> Judged {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// OpenAI's chat completions, Ollama and compatible servers.
fn chat(body: &Value) -> Judged {
    let mut waiting: Vec<String> = Vec::new();
    for message in items(body, "messages") {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = waiting.iter().position(|waiting| waiting == id);
            waiting.remove(at.ok_or_else(|| format!("a tool message must follow its tool_calls: {message}"))?);
            continue;
        }
        rule(
            waiting.is_empty(),
            format!("an assistant message with tool_calls must be followed by tool messages: {message}"),
        )?;
        let calls = items(message, "tool_calls");
        waiting = calls.iter().map(|call| call["id"].as_str().unwrap_or_default().to_owned()).collect();
        let is_empty = message["content"].is_null() || message["content"] == "";
        rule(
            role != "assistant" || !calls.is_empty() || !is_empty,
            "an assistant message has neither content nor calls",
        )?;
        rule(["system", "developer", "user", "assistant"].contains(&role), format!("a role: {role}"))?;
    }
    rule(waiting.is_empty(), "the last tool_calls have no tool messages")
}

fn responses(body: &Value) -> Judged {
    let (mut made, mut thought) = (Vec::new(), false);
    for item in items(body, "input") {
        let kind = item["type"].as_str().unwrap_or("message");
        let id = item["call_id"].as_str().unwrap_or_default().to_owned();
        match kind {
            "function_call" => made.push(id),
            "function_call_output" => {
                let at =
                    made.iter().position(|made| *made == id).ok_or("no tool call found for function call output")?;
                made.remove(at);
            }
            "reasoning" => rule(item["encrypted_content"] == SIGNED, "the secret is not what it was")?,
            _ => rule(made.is_empty(), format!("no tool output found for function call: {item}"))?,
        }
        let follows = kind == "function_call" || item["role"] == "assistant" || kind == "reasoning";
        rule(!thought || follows, "a reasoning item was given without its following item")?;
        thought = kind == "reasoning";
    }
    rule(made.is_empty() && !thought, "no tool output found for the last function call")
}

fn anthropic(body: &Value) -> Judged {
    let messages = items(body, "messages");
    rule(messages.first().is_some_and(|first| first["role"] == "user"), "the first message must be the user's")?;
    let mut waiting: Vec<&Value> = Vec::new();
    for message in messages {
        let blocks = items(message, "content");
        rule(!blocks.is_empty(), "a message is empty")?;
        let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
        rule(of("text").all(|block| !block["text"].as_str().unwrap_or_default().trim().is_empty()), "a text is blank")?;
        let mut results: Vec<&Value> = of("tool_result").map(|block| &block["tool_use_id"]).collect();
        results.sort_by_key(ToString::to_string);
        waiting.sort_by_key(ToString::to_string);
        rule(results == waiting, format!("tool_use without tool_result immediately after, or the reverse: {message}"))?;
        let leading = blocks.iter().take(results.len()).all(|block| block["type"] == "tool_result");
        rule(leading, "tool_results must come first")?;
        waiting = of("tool_use").map(|block| &block["id"]).collect();
        rule(message["role"] == "assistant" || waiting.is_empty(), "the user cannot use tools")?;
        rule(of("thinking").all(|block| block["signature"] == SIGNED), "a signature is not what it was")?;
    }
    rule(waiting.is_empty(), "the last tool_use has no tool_result")
}

fn gemini(body: &Value) -> Judged {
    let contents = items(body, "contents");
    rule(contents.first().is_some_and(|first| first["role"] == "user"), "the first content must be the user's")?;
    let mut called = 0;
    let mut before = "";
    for content in contents {
        let parts = items(content, "parts");
        rule(!parts.is_empty(), "a content has no parts")?;
        let count = |what: &str| parts.iter().filter(|part| part.get(what).is_some()).count();
        let (calls, results) = (count("functionCall"), count("functionResponse"));
        rule(
            results == called,
            "the number of function response parts must be equal to that of the function call parts",
        )?;
        let role = content["role"].as_str().unwrap_or_default();
        rule(calls == 0 || before == "user", "a function call turn must come immediately after a user turn")?;
        let signature = parts.iter().filter_map(|part| part.get("thoughtSignature"));
        rule(
            signature.clone().all(|signature| signature == SIGNED || signature.as_str().is_some_and(|it| it.len() > 8)),
            "a signature",
        )?;
        (called, before) = (calls, role);
    }
    rule(called == 0, "the last function calls have no responses")
}

/// The rules of a provider.
type Judge = fn(&Value) -> Judged;

/// Returns all dialects, with the thoughts of their models and the rules of their providers.
fn dialects() -> Vec<(Provider, Judge)> {
    let judge = |provider: &Provider| -> Judge {
        match provider.name {
            "gemini" => gemini,
            "anthropic" => anthropic,
            "responses" => responses,
            _ => chat,
        }
    };
    let mut all: Vec<_> = all().into_iter().map(|provider| (provider.clone(), judge(&provider))).collect();
    let ollama = Provider {
        name: "ollama",
        model: |url| Model::ollama("qwen3").url(url),
        first: json!({ "message": { "content": "", "tool_calls": [{ "function": { "name": "look", "arguments": {} } }] }, "done": true }),
        ..all[0].0.clone()
    };
    all.push((ollama, chat));
    all
}

#[test]
fn compacted_conversation_is_valid_in_every_dialect() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let prepared: Vec<_> = runtime.block_on(async {
        let mut prepared = Vec::new();
        for (provider, judge) in dialects() {
            let server = Server::start([Reply::Whole(200, "", provider.first.to_string())]).await;
            let model = (provider.model)(&server.url).retry(1);
            let answer = model.chat(ChatRequest::new([Message::user("go")])).await.unwrap();
            prepared.push((provider.name, model, server, answer.message.reasoning().to_vec(), judge));
        }
        prepared
    });
    let marks = (0..40_usize, 0..40_usize, 0..40_usize, proptest::option::of(0..300_usize), any::<bool>());
    let mut runner = TestRunner::new(Config::with_cases(120));
    runner
        .run(&(vec(said(), 1..30), marks), |(said, (cut, cleared, offloaded, clipped, pins))| {
            for (name, model, server, thoughts, judge) in &prepared {
                let all = talk(&said, thoughts);
                let mut record = Compaction::default();
                record.cut = MessageMark::behind(&all, cut);
                record.cleared = MessageMark::behind(&all, cleared);
                record.offloaded = MessageMark::behind(&all, offloaded);
                record.clipped =
                    clipped.and_then(|most| Some(Clipping::new(MessageMark::behind(&all, all.len())?, most)));
                record.summary = "They talked.".to_owned();
                record.pinned = all.iter().filter(|_| pins).take(1).filter_map(|message| message.id.clone()).collect();
                let view = compacted(&all, Some(&record));
                // The server refuses every request. Only the request matters.
                let _ = runtime.block_on(model.chat(ChatRequest::new(&view)));
                let body = server.asked().pop().unwrap().body;
                prop_assert!(judge(&body).is_ok(), "{name}: {:?}\n{body:#}\nof {view:#?}", judge(&body));
            }
            Ok(())
        })
        .unwrap();
}

/// The judges refuse invalid requests.
#[test]
fn validators_refuse_like_providers() {
    let call = json!({ "role": "assistant", "tool_calls": [{ "id": "1" }] });
    let result = json!({ "role": "tool", "tool_call_id": "1", "content": "x" });
    let user = json!({ "role": "user", "content": "hi" });
    assert!(chat(&json!({ "messages": [user, call, result] })).is_ok());
    assert!(chat(&json!({ "messages": [user, call, user] })).is_err());
    assert!(chat(&json!({ "messages": [user, result] })).is_err());
    let text = json!([{ "type": "text", "text": "hi" }]);
    let call_block = json!([{ "type": "tool_use", "id": "1" }]);
    let result_block = json!([{ "type": "tool_result", "tool_use_id": "1" }]);
    let said = |role: &str, content: &Value| json!({ "role": role, "content": content });
    assert!(
        anthropic(
            &json!({ "messages": [said("user", &text), said("assistant", &call_block), said("user", &result_block)] })
        )
        .is_ok()
    );
    assert!(anthropic(&json!({ "messages": [said("assistant", &text)] })).is_err());
    assert!(
        anthropic(&json!({ "messages": [said("user", &text), said("assistant", &call_block), said("user", &text)] }))
            .is_err()
    );
    assert!(anthropic(&json!({ "messages": [said("user", &result_block)] })).is_err());
    let part = |role: &str, part: Value| json!({ "role": role, "parts": [part] });
    let (calls, results) = (json!({ "functionCall": {} }), json!({ "functionResponse": {} }));
    let hello = part("user", json!({ "text": "hi" }));
    assert!(
        gemini(&json!({ "contents": [hello, part("model", calls.clone()), part("user", results.clone())] })).is_ok()
    );
    assert!(gemini(&json!({ "contents": [hello, part("model", calls)] })).is_err());
    assert!(gemini(&json!({ "contents": [part("user", results)] })).is_err());
    let item = |kind: &str| json!({ "type": kind, "call_id": "1", "encrypted_content": SIGNED });
    assert!(
        responses(&json!({ "input": [item("reasoning"), item("function_call"), item("function_call_output")] }))
            .is_ok()
    );
    assert!(responses(&json!({ "input": [item("function_call_output")] })).is_err());
    assert!(responses(&json!({ "input": [item("reasoning"), item("message")] })).is_err());
}
