//! Results of client tools that arrive at once, twice, late, in another run than expected, or for a server that restarts.

use std::time::{Duration, Instant};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_server::Server;
use hier_testkit::ScriptedModel;
use reqwest::Method;
use serde_json::{Value, json};

use crate::agui::{events_of, input, of};
use crate::client_tools::{Files, PICK, calls, last, result, run, user};
use crate::graphs::{Slow, server};
use crate::support::{Desk, SentEvent, open};

/// A server that executes one run at a time.
fn files(tools: &'static [(&'static str, &'static str)]) -> Server {
    let server = Server::new().graph("files", Files::compile(), BaseContext::new(calls("c", tools)));
    server.graph("slow", Slow::compile(), ()).concurrency(1)
}

/// Occupies the server with a run of another thread for a short time. Until its end, all other runs wait, in order.
pub(crate) async fn occupy(desk: &Desk) {
    let thread = desk.thread().await;
    let slow = add(desk, &thread, "slow", json!({ "input": { "n": 0.3 } })).await;
    let end = Instant::now() + Duration::from_mins(1);
    while status_of(desk, &thread, &slow).await != "running" {
        assert!(Instant::now() < end, "the run does not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn look() -> Value {
    json!({ "input": { "messages": [{ "role": "user", "content": "Look." }] } })
}

fn picked(name: &str) -> Value {
    json!({ "name": name })
}

/// Adds a run without waiting for its end.
pub(crate) async fn add(desk: &Desk, thread: &str, graph: &str, mut body: Value) -> String {
    body["assistant_id"] = json!(graph);
    let (status, run) = desk.post(&format!("/threads/{thread}/runs"), body).await;
    assert_eq!(status, 200, "{run}");
    run["run_id"].as_str().expect("an id").to_owned()
}

async fn thread_row(desk: &Desk, thread: &str) -> Value {
    desk.get(&format!("/threads/{thread}")).await.1
}

/// The row of the thread once no run is left.
pub(crate) async fn settled(desk: &Desk, thread: &str) -> Value {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let row = thread_row(desk, thread).await;
        if row["status"] != "busy" {
            return row;
        }
        assert!(Instant::now() < end, "the thread stays busy: {row}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn status_of(desk: &Desk, thread: &str, run: &str) -> Value {
    desk.get(&format!("/threads/{thread}/runs/{run}")).await.1["status"].clone()
}

const BOTH: &str = r#"{"name":"a.png"} and {"name":"b.png"}"#;

/// A client that runs two tools at once may send each result as soon as it has it, with any strategy.
#[tokio::test]
async fn results_of_parallel_calls_are_all_stored() {
    let desk = open(files(&[PICK, PICK])).await;
    for strategy in ["enqueue", "interrupt", "rollback"] {
        let thread = desk.thread().await;
        run(&desk, &thread, look()).await;
        let resume = |call: &str, name: &str| json!({ "command": { "resume": { call: picked(name) } }, "multitask_strategy": strategy });
        occupy(&desk).await;
        add(&desk, &thread, "files", resume("c1-0", "a.png")).await;
        assert_eq!(thread_row(&desk, &thread).await["status"], "busy");
        let (status, ended) = run(&desk, &thread, resume("c1-1", "b.png")).await;
        assert_eq!((status, last(&ended)), (200, &json!(BOTH)), "{strategy}: {ended}");
    }
    desk.stop().await;
}

/// A client may see a call in the stream of a run that has not ended.
#[tokio::test]
async fn result_waits_for_the_run_that_asks() {
    let desk = open(files(&[PICK])).await;
    for nested in [false, true] {
        let thread = desk.thread().await;
        occupy(&desk).await;
        add(&desk, &thread, "files", look()).await;
        let result = json!({ "c1-0": picked("a.png") });
        let resume = if nested { json!({ "0123456789abcdef0123456789abcdef": result }) } else { result };
        let (status, ended) = run(&desk, &thread, json!({ "command": { "resume": resume } })).await;
        if nested {
            // It has another question's id, and nothing is changed.
            assert_eq!(ended["__error__"]["error"], "AnswerError", "{status} {ended}");
            assert_eq!(settled(&desk, &thread).await["status"], "interrupted");
        } else {
            assert_eq!((status, last(&ended)), (200, &json!(r#"{"name":"a.png"}"#)), "{ended}");
        }
    }
    desk.stop().await;
}

#[tokio::test]
async fn second_result_while_the_first_is_stored_is_dropped() {
    let desk = open(files(&[PICK])).await;
    for strategy in ["enqueue", "interrupt"] {
        let thread = desk.thread().await;
        run(&desk, &thread, look()).await;
        let resume =
            |name: &str| json!({ "command": { "resume": { "c1-0": picked(name) } }, "multitask_strategy": strategy });
        occupy(&desk).await;
        let first = add(&desk, &thread, "files", resume("a.png")).await;
        let (status, ended) = run(&desk, &thread, resume("b.png")).await;
        assert_eq!((status, last(&ended)), (200, &json!(r#"{"name":"a.png"}"#)), "{strategy}: {ended}");
        assert_eq!(status_of(&desk, &thread, &first).await, "success");
        assert_eq!(settled(&desk, &thread).await["status"], "idle");
    }
    desk.stop().await;
}

#[tokio::test]
async fn wrong_result_is_refused_while_the_thread_is_busy() {
    let desk = open(files(&[PICK, PICK])).await;
    let thread = desk.thread().await;
    run(&desk, &thread, look()).await;
    occupy(&desk).await;
    add(&desk, &thread, "files", json!({ "command": { "resume": { "c1-0": picked("a.png") } } })).await;
    let (status, error) = run(&desk, &thread, json!({ "command": { "resume": { "c1-1": "a picture" } } })).await;
    assert!(status == 422 && error.to_string().contains("pick_file"), "{error}");
    let (_, ended) = run(&desk, &thread, json!({ "command": { "resume": { "c1-1": picked("b.png") } } })).await;
    assert_eq!(last(&ended), &json!(BOTH), "{ended}");
    desk.stop().await;
}

#[tokio::test]
async fn late_result_of_a_withdrawn_call_is_dropped() {
    let desk = open(files(&[PICK])).await;
    let thread = desk.thread().await;
    run(&desk, &thread, look()).await;
    let withdraws = json!({ "input": { "messages": [{ "role": "user", "content": "Another one." }] } });
    occupy(&desk).await;
    add(&desk, &thread, "files", withdraws).await;
    let (status, ended) = run(&desk, &thread, json!({ "command": { "resume": { "c1-0": picked("late.png") } } })).await;
    assert_eq!(status, 200, "{ended}");
    assert_eq!(ended["__interrupt__"][0]["value"]["toolCall"]["id"], "c2-0", "the new call waits: {ended}");
    assert!(!ended.to_string().contains("late.png"), "{ended}");
    let (status, error) = run(&desk, &thread, json!({ "command": { "resume": { "c1-0": picked("late.png") } } })).await;
    assert_eq!(status, 422, "a thread that is not busy refuses it: {error}");
    desk.stop().await;
}

/// Results of client tools are dropped if they are late. An answer of a person fails its run, but not the thread.
#[tokio::test]
async fn late_answer_of_a_person_fails_its_run_and_not_the_thread() {
    let desk = open(server().concurrency(1)).await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/runs/wait");
    let (_, asked) = desk.post(&path, json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    let id = asked["__interrupt__"][0]["id"].as_str().expect("a question");
    occupy(&desk).await;
    let first = add(&desk, &thread, "hitl", json!({ "input": { "n": 2.0 } })).await;
    let second = add(&desk, &thread, "hitl", json!({ "command": { "resume": { id: "no" } } })).await;
    let row = settled(&desk, &thread).await;
    assert_eq!((&row["status"], &row["values"]["log"]), (&json!("interrupted"), &json!(["a", "a"])), "{row}");
    assert_eq!(status_of(&desk, &thread, &first).await, "success");
    assert_eq!(status_of(&desk, &thread, &second).await, "error");
    desk.stop().await;
}

#[tokio::test]
async fn huge_result_is_stored_and_a_larger_body_is_refused() {
    let desk = open(files(&[PICK]).max_body(4 << 20)).await;
    let thread = desk.thread().await;
    run(&desk, &thread, look()).await;
    let (status, _) =
        run(&desk, &thread, json!({ "command": { "resume": { "c1-0": picked(&"x".repeat(5 << 20)) } } })).await;
    assert_eq!(status, 413);
    assert_eq!(thread_row(&desk, &thread).await["status"], "interrupted");
    let name = "y".repeat(3 << 20);
    let (status, ended) = run(&desk, &thread, json!({ "command": { "resume": { "c1-0": picked(&name) } } })).await;
    assert_eq!(status, 200);
    assert_eq!(last(&ended), &json!(format!(r#"{{"name":"{name}"}}"#)));
    desk.stop().await;
}

/// The server stops after it has accepted a result and before it has stored it.
#[tokio::test]
async fn accepted_result_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("desk.db").display());
    let first = open(files(&[PICK, PICK]).database(&url)).await;
    let thread = first.thread().await;
    run(&first, &thread, look()).await;
    let later = json!({ "command": { "resume": { "c1-0": picked("a.png") } }, "after_seconds": 0.3 });
    add(&first, &thread, "files", later).await;
    first.stop().await;
    let second = open(files(&[PICK, PICK]).database(&url)).await;
    assert_eq!(settled(&second, &thread).await["status"], "interrupted", "one call is left");
    let (status, ended) = run(&second, &thread, json!({ "command": { "resume": { "c1-1": picked("b.png") } } })).await;
    assert_eq!((status, last(&ended)), (200, &json!(BOTH)), "{ended}");
    second.stop().await;
}

pub(crate) async fn command(desk: &Desk, thread: &str, method: &str, params: Value) -> Value {
    let body = json!({ "id": 7, "method": method, "params": params });
    let (status, answer) = desk.post(&format!("/threads/{thread}/commands"), body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The events of a thread until the root graph has ended its last run like this.
async fn until_lifecycle(desk: &Desk, thread: &str, last: &str) -> Vec<SentEvent> {
    let channels = json!({ "channels": ["values", "lifecycle", "input", "tools"] });
    let path = format!("/threads/{thread}/stream/events");
    let (mut open, mut text) = (desk.send(Method::POST, &path, &channels).await, String::new());
    let ends = |received: &SentEvent| {
        let params = &received.data["params"];
        params["data"]["event"] == last && params["namespace"] == json!([])
    };
    desk.until(&mut open, &mut text, |received| received.iter().any(ends)).await
}

fn asked_of(received: &[SentEvent]) -> Vec<(String, Value)> {
    let asked = received.iter().filter(|received| received.event == "input.requested");
    let asked = asked.map(|received| &received.data["params"]["data"]);
    asked.map(|data| (data["interrupt_id"].as_str().expect("an id").to_owned(), data["payload"].clone())).collect()
}

/// `useStream` of `@langchain/react` sends the results of the calls that it has received at once together, and others
/// one after the other.
#[tokio::test]
async fn v3_client_sends_results_together_and_one_by_one() {
    let desk = open(files(&[PICK, PICK])).await;
    for together in [true, false] {
        let thread = desk.thread().await;
        let mut start = look();
        start["assistant_id"] = json!("files");
        command(&desk, &thread, "run.start", start).await;
        let asked = asked_of(&until_lifecycle(&desk, &thread, "interrupted").await);
        let calls: Vec<&Value> = asked.iter().map(|(_, payload)| &payload["toolCall"]["id"]).collect();
        assert_eq!(calls, ["c1-0", "c1-1"]);
        assert_eq!(asked[0].1["type"], "tool");
        let response = |place: usize, name: &str| {
            let (id, payload) = &asked[place];
            let call = payload["toolCall"]["id"].as_str().expect("an id");
            json!({ "interrupt_id": id, "namespace": [], "response": { call: picked(name) } })
        };
        let (one, other) = (response(0, "a.png"), response(1, "b.png"));
        if together {
            command(&desk, &thread, "input.respond", json!({ "responses": [one, other] })).await;
        } else {
            let (one, other) = tokio::join!(
                command(&desk, &thread, "input.respond", one),
                command(&desk, &thread, "input.respond", other)
            );
            assert_eq!((&one["type"], &other["type"]), (&json!("success"), &json!("success")), "{one} {other}");
        }
        let received = until_lifecycle(&desk, &thread, "completed").await;
        let values = received.iter().rfind(|received| received.event == "values").expect("a state");
        assert_eq!(last(&values.data["params"]["data"]), &json!(BOTH));
        let again = command(&desk, &thread, "input.respond", response(0, "c.png")).await;
        assert_eq!(again["error"], "no_such_interrupt");
    }
    desk.stop().await;
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    #[state(flatten)]
    base: BaseState,
    theme: String,
}

/// Shows a text.
#[tool(client)]
async fn show() -> String;

graph! { Reader<Page> = Agent { tools: [show] } }

/// The text of a run's answer.
fn text_of(received: &[Value]) -> String {
    of(received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect()
}

/// The model fails after it has received a result, and the client sends the same request again.
#[tokio::test]
async fn agui_result_is_sent_again_after_a_failure() {
    let call = ToolCall::new("pick_file", json!({ "kind": "png" })).with_id("c1");
    let model = ScriptedModel::new([Message::calls("", [call])]);
    let desk = open(Server::new().graph("files", Files::compile(), BaseContext::new(model.clone()))).await;
    let hello = user("u1", "Look.");
    events_of(&desk, "files", input("t", "r1", json!({ "messages": [hello] }))).await;
    let answered = json!({ "messages": [hello, result("t1", "c1", r#"{"name": "a.png"}"#)] });
    let failed = events_of(&desk, "files", input("t", "r2", answered.clone())).await;
    let end = failed.last().expect("an end");
    assert!(end["type"] == "RUN_ERROR" && end["code"] != "TOOL_RESULT_UNEXPECTED", "{end}");
    model.push(Message::assistant("It is a.png."));
    let received = events_of(&desk, "files", input("t", "r3", answered)).await;
    assert_eq!(text_of(&received), "It is a.png.", "{received:?}");
    let messages = of(&received, "MESSAGES_SNAPSHOT").last().expect("messages")["messages"].clone();
    let roles: Vec<_> = messages.as_array().expect("a list").iter().map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, [Some("user"), Some("assistant"), Some("tool"), Some("assistant")], "{messages}");
    desk.stop().await;
}

#[tokio::test]
async fn agui_state_is_changed_with_a_result() {
    let model = calls("c", &[("show", "{}")]);
    let desk = open(server().graph("reader", Reader::compile(), BaseContext::new(model))).await;
    let hello = user("u1", "Show it.");
    let received = events_of(&desk, "reader", input("t", "r1", json!({ "messages": [hello] }))).await;
    let mut state = of(&received, "STATE_SNAPSHOT").last().expect("a state")["snapshot"].clone();
    assert_eq!(state["theme"], "");
    state["theme"] = json!("dark");
    let shown = json!({ "messages": [hello, result("t1", "c1-0", "shown")], "state": state });
    let received = events_of(&desk, "reader", input("t", "r2", shown)).await;
    assert_eq!(text_of(&received), "shown");
    let snapshot = &of(&received, "STATE_SNAPSHOT")[0]["snapshot"];
    assert_eq!(snapshot["theme"], "dark", "{received:?}");
    let wrong = json!({ "messages": [user("u2", "Again.")], "state": { "theme": 5 } });
    let (status, error) = desk.post("/agui/reader", input("t", "r3", wrong)).await;
    assert!(status == 422 && error.to_string().contains("theme"), "{error}");
    desk.stop().await;
}
