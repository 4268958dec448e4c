//! An answer belongs to the question or call that it names, on each path on which it enters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_core::runs::MemoryRuns;
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::agui::{events_of, input};
use crate::client_results::{add, command, occupy, settled};
use crate::client_tools::{calls, last, result, user};
use crate::crons::{ended, hurry};
use crate::graphs::{Slow, server};
use crate::support::{Desk, open};

/// Shows a text in the client.
#[tool(client)]
async fn tell(text: String);

graph! { Teller<MessagesState> = Agent { tools: [tell] } }

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Shop {
    #[state(flatten)]
    base: BaseState,
}

graph! { Owner<Shop> = Agent { subagents: [Seller {}] } }

graph! { Seller<Shop> = Agent { tools: [tell] } }

const TELL: (&str, &str) = ("tell", r#"{"text": "Hi"}"#);

/// A server that executes one run at a time.
async fn shop() -> Desk {
    static CALLS: AtomicUsize = AtomicUsize::new(1);
    let owner = ScriptedModel::reacting(|request| {
        let made = request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count();
        let (name, last) = match &*request.tools[0].name {
            "tell" => ("tell", 1),
            _ => ("seller", 2),
        };
        if made == last {
            return Message::assistant("done");
        }
        let args = if name == "tell" { json!({ "text": "Hi" }) } else { json!({ "task": "sell" }) };
        let id = format!("{name}-{}", CALLS.fetch_add(1, Ordering::Relaxed));
        Message::calls("", [ToolCall::new(name, args).with_id(id)])
    });
    let teller = Server::new().graph("teller", Teller::compile(), BaseContext::new(calls("c", &[TELL])));
    open(
        teller
            .graph("owner", Owner::compile(), BaseContext::new(owner))
            .graph("slow", Slow::compile(), ())
            .concurrency(1),
    )
    .await
}

async fn run(desk: &Desk, thread: &str, graph: &str, mut body: Value) -> (u16, Value) {
    body["assistant_id"] = json!(graph);
    desk.post(&format!("/threads/{thread}/runs/wait"), body).await
}

fn hello() -> Value {
    json!({ "input": { "messages": [{ "role": "user", "content": "Go." }] } })
}

fn resume(resume: &Value) -> Value {
    json!({ "command": { "resume": resume } })
}

/// The id of the only open call.
fn open_call(output: &Value) -> String {
    let asked = output["__interrupt__"].as_array().expect("a question");
    assert_eq!(asked.len(), 1, "{output}");
    asked[0]["value"]["toolCall"]["id"].as_str().expect("a call").to_owned()
}

/// A thread whose first call has its result, and whose second call waits.
async fn second_call(desk: &Desk, graph: &str) -> (String, String, String) {
    let thread = desk.thread().await;
    let first = open_call(&run(desk, &thread, graph, hello()).await.1);
    let (_, mut output) = run(desk, &thread, graph, resume(&json!({ &*first: { "seen": true } }))).await;
    if output.get("__interrupt__").is_none() {
        output = run(desk, &thread, graph, hello()).await.1;
    }
    let second = open_call(&output);
    assert_ne!(first, second);
    (thread, first, second)
}

/// The tool accepts any result.
#[tokio::test]
async fn late_result_of_an_earlier_call_is_refused_with_the_open_call() {
    let desk = shop().await;
    for graph in ["teller", "owner"] {
        let (thread, first, second) = second_call(&desk, graph).await;
        let before = desk.get(&format!("/threads/{thread}")).await.1;
        for late in [json!({ &*first: { "seen": true } }), json!({ &*first: 1, &*second: 2 }), json!({ "seen": true })]
        {
            let (status, error) = run(&desk, &thread, graph, resume(&late)).await;
            let detail = error["detail"].as_str().unwrap_or_default();
            assert!(status == 422 && detail.contains(&format!("open: `{second}`")), "{late}: {error}");
        }
        // In the v3 event protocol, an input for a thread that waits is the answer.
        let start = json!({ "assistant_id": graph, "input": { &*first: 1 } });
        let refused = command(&desk, &thread, "run.start", start).await;
        assert!(refused["type"] == "error" && refused.to_string().contains(&second), "{refused}");
        assert_eq!(desk.get(&format!("/threads/{thread}")).await.1, before, "what is refused has changed nothing");
        let (status, ended) = run(&desk, &thread, graph, resume(&json!({ &*second: { "seen": true } }))).await;
        assert!(status == 200 && ended.get("__interrupt__").is_none(), "{graph}: {ended}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn late_result_for_a_busy_thread_fails_its_run_and_the_call_stays_open() {
    let desk = shop().await;
    let thread = desk.thread().await;
    let first = open_call(&run(&desk, &thread, "teller", hello()).await.1);
    run(&desk, &thread, "teller", resume(&json!({ &*first: 1 }))).await;
    occupy(&desk).await;
    // The second call is not asked yet.
    add(&desk, &thread, "teller", hello()).await;
    let (_, failed) = run(&desk, &thread, "teller", resume(&json!({ &*first: 1 }))).await;
    assert!(failed["__error__"]["error"] == "AnswerError" && failed.to_string().contains("open: `c2-0`"), "{failed}");
    assert_eq!(settled(&desk, &thread).await["status"], "interrupted");
    let (status, ended) = run(&desk, &thread, "teller", resume(&json!("told"))).await;
    assert_eq!((status, last(&ended)), (200, &json!("Done.")), "a text names no call: {ended}");
    desk.stop().await;
}

#[tokio::test]
async fn agui_names_the_open_call_if_the_result_is_that_of_another() {
    let desk = shop().await;
    let (hello, more) = (user("u1", "Go."), user("u2", "Again."));
    events_of(&desk, "teller", input("t", "r1", json!({ "messages": [hello] }))).await;
    let told = result("t1", "c1-0", "told");
    events_of(&desk, "teller", input("t", "r2", json!({ "messages": [hello, told] }))).await;
    events_of(&desk, "teller", input("t", "r3", json!({ "messages": [hello, told, more] }))).await;
    let late = json!({ "messages": [hello, more, result("t9", "c1-0", "late")] });
    let received = events_of(&desk, "teller", input("t", "r4", late)).await;
    let end = received.last().expect("an end");
    assert_eq!(end["code"], "TOOL_RESULT_UNEXPECTED", "{end}");
    assert!(end["message"].as_str().expect("a text").ends_with("open: `c2-0`"), "{end}");
    desk.stop().await;
}

/// The forms of AG-UI's connector to LangGraph, for a thread that is idle or busy, with a checkpoint and without.
#[tokio::test]
async fn answers_of_the_connector_reach_the_node_as_plain_answers() {
    let desk = open(server().concurrency(1)).await;
    for (is_busy, has_checkpoint) in [(false, false), (false, true), (true, false), (true, true)] {
        let thread = desk.thread().await;
        let (_, asked) = run(&desk, &thread, "hitl", json!({ "input": { "n": 1.0 } })).await;
        let id = asked["__interrupt__"][0]["id"].as_str().expect("an id");
        let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
        if is_busy {
            occupy(&desk).await;
            // It asks the same question again.
            add(&desk, &thread, "hitl", json!({ "input": null })).await;
        }
        let mut body = resume(&json!({ "__agui_resume_map__": { id: { "status": "resolved", "payload": "yes" } } }));
        if has_checkpoint {
            body["checkpoint"] = state["checkpoint"].clone();
        }
        let (status, ended) = run(&desk, &thread, "hitl", body).await;
        let case = format!("busy: {is_busy}, checkpoint: {has_checkpoint}: {ended}");
        assert_eq!((status, &ended["log"]), (200, &json!(["a", "ask:yes", "b"])), "{case}");
    }
    let thread = desk.thread().await;
    run(&desk, &thread, "hitl", json!({ "input": { "n": 1.0 } })).await;
    let unknown = resume(&json!({ "__agui_resume_map__": { "first": { "payload": "yes" } } }));
    let (status, error) = run(&desk, &thread, "hitl", unknown).await;
    assert!(status == 422 && error.to_string().contains("`first` is not the id of an interrupt"), "{error}");
    desk.stop().await;
}

/// A run of a cron is stored with the answer in the engine's form.
#[tokio::test]
async fn cron_answers_in_the_form_of_the_connector() {
    let store = MemoryRuns::new();
    let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let thread = desk.thread().await;
    let (_, asked) = run(&desk, &thread, "hitl", json!({ "input": { "n": 1.0 } })).await;
    let id = asked["__interrupt__"][0]["id"].as_str().expect("an id");
    let cron = async |id: &str| {
        let mut body = resume(&json!({ "__agui_resume_map__": { id: { "status": "resolved", "payload": "yes" } } }));
        (body["assistant_id"], body["schedule"]) = (json!("hitl"), json!("0 0 1 1 *"));
        desk.post(&format!("/threads/{thread}/runs/crons"), body).await
    };
    let (status, error) = cron("first").await;
    assert!(status == 422 && error.to_string().contains("`first` is not the id of an interrupt"), "{error}");
    let (status, made) = cron(id).await;
    assert_eq!(status, 200, "{made}");
    hurry(&store).await;
    ended(&store, 2).await;
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"]["log"], json!(["a", "ask:yes", "b"]));
    desk.stop().await;
}

#[tokio::test]
async fn batch_takes_answers_in_the_form_of_the_connector() {
    let desk = open(server()).await;
    let batch = async |id: &str| {
        let mut body = resume(&json!({ "__agui_resume_map__": { id: { "status": "resolved", "payload": "yes" } } }));
        body["assistant_id"] = json!("hitl");
        desk.post("/runs/batch", json!([body])).await
    };
    let (status, error) = batch("first").await;
    let says = "run 0 of the batch: `command.resume`: `first` is not the id of an interrupt";
    assert!(status == 422 && error.to_string().contains(says), "{error}");
    let id = "0123456789abcdef0123456789abcdef";
    let (status, made) = batch(id).await;
    assert_eq!((status, &made[0]["kwargs"]["command"]["resume"]), (200, &json!({ id: "yes" })), "{made}");
    desk.stop().await;
}
