//! Tools that run in the client, over the runs API with the forms of LangGraph's clients, and over AG-UI.

use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::ClientTools;
use hier_agents::prelude::*;
use hier_core::message::{Body, ToolCall};
use hier_server::{RunRequest, Server};
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::agui::{events_of, input, of};
use crate::support::{Desk, open};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> Picked;

/// Weighs a file.
#[tool]
async fn weigh(run: &Run<BaseContext>) -> String {
    let _ = run;
    format!("weighed {} times", 1 + WEIGHED.fetch_add(1, Ordering::Relaxed))
}

static WEIGHED: AtomicUsize = AtomicUsize::new(0);

graph! {
    /// Looks at files of the user.
    pub(crate) Files<MessagesState> = Agent { tools: [pick_file, weigh] }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Office {
    #[state(flatten)]
    base: BaseState,
}

graph! { Boss<Office> = Agent { subagents: [Clerk {}] } }

graph! { Clerk<Office> = Agent { tools: [pick_file] } }

/// Calls the tool `name` after each message of the user, and repeats the results of its calls otherwise. The ids of its
/// calls begin with the prefix.
pub(crate) fn calls(prefix: &'static str, tools: &'static [(&'static str, &'static str)]) -> ScriptedModel {
    ScriptedModel::reacting(move |request| {
        let messages: Vec<_> = request.messages.iter().collect();
        let asked = messages.iter().filter(|message| matches!(message.body, Body::User { .. })).count();
        let results = messages.iter().rev().take_while(|message| message.tool_call_id().is_some());
        let mut results: Vec<String> = results.map(|message| message.text()).collect();
        if !results.is_empty() {
            results.reverse();
            return Message::assistant(results.join(" and "));
        }
        let call = |(place, (name, args)): (usize, &(&str, &str))| {
            let args = serde_json::from_str(args).expect("JSON");
            ToolCall { name: (*name).to_owned(), args, id: format!("{prefix}{asked}-{place}") }
        };
        Message::calls("", tools.iter().enumerate().map(call))
    })
}

pub(crate) const PICK: (&str, &str) = ("pick_file", r#"{"kind": "png"}"#);

async fn files() -> Desk {
    open(Server::new().graph("files", Files::compile(), BaseContext::new(calls("c", &[PICK])))).await
}

pub(crate) async fn run(desk: &Desk, thread: &str, body: Value) -> (u16, Value) {
    let mut body = body;
    body["assistant_id"] = json!("files");
    desk.post(&format!("/threads/{thread}/runs/wait"), body).await
}

pub(crate) fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "content": text })
}

pub(crate) fn result(id: &str, call: &str, content: &str) -> Value {
    json!({ "id": id, "role": "tool", "toolCallId": call, "content": content })
}

/// The last message of a state.
pub(crate) fn last(values: &Value) -> &Value {
    &values["messages"].as_array().and_then(|messages| messages.last()).expect("a message")["content"]
}

#[tokio::test]
async fn interrupt_and_answers_have_the_forms_of_headless_tools() {
    let desk = files().await;
    for form in ["call", "question", "both"] {
        let thread = desk.thread().await;
        let hello = json!({ "input": { "messages": [{ "role": "user", "content": "Look." }] } });
        let (status, asked) = run(&desk, &thread, hello).await;
        let interrupt = &asked["__interrupt__"][0];
        let call = json!({ "id": "c1-0", "name": "pick_file", "args": { "kind": "png" } });
        assert_eq!((status, &interrupt["value"]), (200, &json!({ "type": "tool", "toolCall": call })), "{asked}");
        let id = interrupt["id"].as_str().expect("an id");
        let resume = |result: Value| match form {
            "call" => json!({ "command": { "resume": { "c1-0": result } } }),
            "question" => json!({ "command": { "resume": { id: result } } }),
            _ => json!({ "command": { "resume": { id: { "c1-0": result } } } }),
        };
        let (status, error) = run(&desk, &thread, resume(json!({ "size": 1 }))).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && detail.contains("not an answer to the question `pick_file`"), "{form}: {error}");
        let (status, ended) = run(&desk, &thread, resume(json!({ "name": "a.png" }))).await;
        assert_eq!((status, last(&ended)), (200, &json!(r#"{"name":"a.png"}"#)), "{form}: {ended}");
        let (status, twice) = run(&desk, &thread, resume(json!({ "name": "b.png" }))).await;
        assert!(status == 422 || twice.get("__error__").is_some(), "{form}: {status} {twice}");
        let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
        assert_eq!(last(&state["values"]), &json!(r#"{"name":"a.png"}"#), "{form}: {state}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn failure_of_a_headless_tool_reaches_the_model() {
    let desk = files().await;
    let thread = desk.thread().await;
    run(&desk, &thread, json!({ "input": { "messages": [{ "role": "user", "content": "Look." }] } })).await;
    let failed = json!({ "command": { "resume": { "c1-0": { "error": "no such tool" } } } });
    let (status, ended) = run(&desk, &thread, failed).await;
    assert_eq!((status, last(&ended)), (200, &json!("Error: no such tool")), "{ended}");
    desk.stop().await;
}

#[tokio::test]
async fn tool_message_of_the_next_input_is_the_result() {
    let model = calls("c", &[PICK, ("weigh", "{}")]);
    let desk = open(Server::new().graph("files", Files::compile(), BaseContext::new(model))).await;
    let received = events_of(&desk, "files", input("t", "r1", json!({ "messages": [user("u1", "Look.")] }))).await;
    let shown = of(&received, "TOOL_CALL_START").into_iter().find(|event| event["toolCallName"] == "pick_file");
    assert_eq!(shown.expect("the call")["toolCallId"], "c1-0");
    assert_eq!(of(&received, "TOOL_CALL_START").len(), 2, "each call is shown once");
    assert_eq!(of(&received, "TOOL_CALL_RESULT").len(), 1, "the server's tool has run");
    assert_eq!(received.last().expect("an end")["outcome"], json!({ "type": "success" }));

    let mut messages = of(&received, "MESSAGES_SNAPSHOT").last().expect("messages")["messages"].clone();
    let messages = messages.as_array_mut().expect("a list");
    messages.push(result("t1", "c1-0", r#"{"name": "a.png"}"#));
    let received = events_of(&desk, "files", input("t", "r2", json!({ "messages": messages }))).await;
    let text: String =
        of(&received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    assert!(text.contains(r#"{"name":"a.png"}"#) && text.contains("weighed 1 times"), "{text}");
    assert!(of(&received, "TOOL_CALL_RESULT").is_empty(), "the client has the result: {received:?}");
    let shown = of(&received, "MESSAGES_SNAPSHOT").last().expect("messages")["messages"].clone();
    let shown = shown.as_array().expect("a list").iter().find(|message| message["toolCallId"] == "c1-0");
    assert_eq!(shown.expect("the result")["id"], "t1", "it keeps the client's id");
    assert_eq!(WEIGHED.load(Ordering::Relaxed), 1);

    // The same result in another run, and one of a call that does not exist.
    let late = events_of(&desk, "files", input("t", "r3", json!({ "messages": messages }))).await;
    assert_eq!(late.last().expect("an end")["code"], "TOOL_RESULT_UNEXPECTED", "{late:?}");
    let unknown = input("t", "r4", json!({ "messages": [result("t2", "c9", "5")] }));
    let (status, error) = desk.post("/agui/files", unknown).await;
    assert!(status == 422 && error.to_string().contains("no call `c9`"), "{error}");
    desk.stop().await;
}

#[tokio::test]
async fn wrong_result_leaves_the_call_open_and_a_new_message_withdraws_it() {
    let desk = files().await;
    let hello = user("u1", "Look.");
    events_of(&desk, "files", input("t", "r1", json!({ "messages": [hello] }))).await;
    let wrong = input("t", "r2", json!({ "messages": [hello, result("t1", "c1-0", "a picture")] }));
    let (status, error) = desk.post("/agui/files", wrong).await;
    assert!(status == 422 && error.to_string().contains("pick_file"), "{error}");
    let nothing = events_of(&desk, "files", input("t", "r3", json!({ "messages": [hello] }))).await;
    assert_eq!(nothing.last().expect("an end")["code"], "INTERRUPT_PENDING", "{nothing:?}");
    // The client keeps its conversation, with the result.
    let more = json!({ "messages": [hello, result("t1", "c1-0", "a picture"), user("u2", "Another one.")] });
    let received = events_of(&desk, "files", input("t", "r4", more)).await;
    assert_eq!(of(&received, "TOOL_CALL_START").last().expect("a call")["toolCallId"], "c2-0");
    let failed = json!({ "id": "t2", "role": "tool", "toolCallId": "c2-0", "content": "", "error": "no file" });
    let received = events_of(&desk, "files", input("t", "r5", json!({ "messages": [failed] }))).await;
    let text: String =
        of(&received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "Error: no file");
    desk.stop().await;
}

#[tokio::test]
async fn text_of_copilotkit_reports_a_failure() {
    let desk = files().await;
    let hello = user("u1", "Look.");
    events_of(&desk, "files", input("t", "r1", json!({ "messages": [hello] }))).await;
    let failed = json!({ "messages": [hello, result("t1", "c1-0", "Error: the user said no")] });
    let received = events_of(&desk, "files", input("t", "r2", failed)).await;
    let text: String =
        of(&received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "Error: the user said no");
    desk.stop().await;
}

#[tokio::test]
async fn calls_of_subagents_are_shown_and_answered() {
    let model = ScriptedModel::new([
        Message::calls("", [ToolCall::new("clerk", json!({ "task": "pick" })).with_id("boss-1")]),
        Message::calls("", [ToolCall::new("pick_file", json!({ "kind": "png" })).with_id("clerk-1")]),
        Message::assistant("It is a.png."),
        Message::assistant("Done."),
    ]);
    let desk = open(Server::new().graph("boss", Boss::compile(), BaseContext::new(model))).await;
    let received = events_of(&desk, "boss", input("t", "r1", json!({ "messages": [user("u1", "Look.")] }))).await;
    let shown = of(&received, "TOOL_CALL_START");
    let call = shown.iter().find(|event| event["toolCallId"] == "clerk-1").expect("the call of the clerk");
    let args = of(&received, "TOOL_CALL_ARGS").into_iter().find(|event| event["toolCallId"] == "clerk-1");
    assert_eq!(
        (&call["toolCallName"], &args.expect("arguments")["delta"]),
        (&json!("pick_file"), &json!(r#"{"kind":"png"}"#))
    );
    assert_eq!(received.last().expect("an end")["outcome"], json!({ "type": "success" }));
    // The client keeps the call as a separate message.
    let own = json!({
        "id": call["parentMessageId"], "role": "assistant",
        "toolCalls": [{ "id": "clerk-1", "type": "function", "function": { "name": "pick_file", "arguments": "{}" } }],
    });
    let picked = result("t1", "clerk-1", r#"{"name": "a.png"}"#);
    let received =
        events_of(&desk, "boss", input("t", "r2", json!({ "messages": [user("u1", "Look."), own, picked] }))).await;
    let messages = of(&received, "MESSAGES_SNAPSHOT").last().expect("messages")["messages"].clone();
    let roles: Vec<_> = messages.as_array().expect("a list").iter().map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, [Some("user"), Some("assistant"), Some("tool"), Some("assistant")], "{messages}");
    desk.stop().await;
}

graph! { Open<MessagesState> = Agent { tools: [weigh, |context| &context.client_tools] } }

#[tokio::test]
async fn tools_of_an_agui_client_are_offered_and_run_by_it() {
    let model = calls("c", &[("show", r#"{"text": "Hi"}"#)]);
    let context = move |run: &RunRequest| {
        ClientTools::of_request(&run.configurable).map(|tools| BaseContext::new(model.clone()).client_tools(tools))
    };
    let desk = open(Server::new().graph("open", Open::compile(), context)).await;
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tools = json!([{ "name": "show", "description": "Shows a text.", "parameters": parameters }]);
    let hello = user("u1", "Greet me.");
    let received = events_of(&desk, "open", input("t", "r1", json!({ "messages": [hello], "tools": tools }))).await;
    assert_eq!(of(&received, "TOOL_CALL_START")[0]["toolCallName"], "show", "{received:?}");
    assert_eq!(received.last().expect("an end")["outcome"], json!({ "type": "success" }));
    let more = json!({ "messages": [hello, result("t1", "c1-0", "shown")], "tools": tools });
    let received = events_of(&desk, "open", input("t", "r2", more)).await;
    let text: String =
        of(&received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "shown");

    // A tool with the name of a tool of the server, and one without a schema.
    for (run, tool, reason) in [
        ("r3", json!({ "name": "weigh", "parameters": parameters }), "has the name of the agent's own tool `weigh`"),
        ("r4", json!({ "name": "show", "parameters": "none" }), "not the JSON Schema of an object"),
    ] {
        let bad = json!({ "messages": [user(run, "Greet me.")], "tools": [tool] });
        let received = events_of(&desk, "open", input(run, run, bad)).await;
        let end = received.last().expect("an end");
        assert!(end["type"] == "RUN_ERROR" && end["message"].to_string().contains(reason), "{end}");
    }
    desk.stop().await;
}
