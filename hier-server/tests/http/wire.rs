//! Messages and other values of clients: all forms are taken, nothing is lost, and nothing else is changed.

use hier_agents::prelude::*;
use hier_testkit::ScriptedModel;
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, names, open, said};

/// A conversation, and data of the program that looks like messages.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[reducer(messages)]
    messages: Messages,
    doc: Value,
    #[reducer(append)]
    log: Vec<Value>,
}

graph! {
    /// Asks, and keeps the answer.
    Keeps<Case> = Graph { nodes: [ask], edges: [START >> ask >> END] }
}

async fn ask(run: &Run) -> hier_core::Result<CaseUpdate> {
    let answer: Value = run.interrupt(&"what?").await?;
    Ok(Case::update().log([answer]).messages(Message::assistant("noted").with_id("a")))
}

graph! {
    /// A graph that runs it.
    Outer<Case> = Graph { nodes: [inner = Keeps], edges: [START >> inner >> END] }
}

graph! {
    /// Does nothing.
    Idle<Case> = Graph { nodes: [rest], edges: [START >> rest >> END] }
}

async fn rest() -> CaseUpdate {
    Case::update()
}

async fn desk() -> Desk {
    open(server().graph("keeps", Keeps::compile(), ()).graph("outer", Outer::compile(), ()).graph(
        "idle",
        Idle::compile(),
        (),
    ))
    .await
}

/// Looks like a message in LangChain's form, and in hier's, at some depth.
fn lookalike() -> Value {
    json!({
        "type": "human", "content": "go", "decision": "approve", "amount": 5,
        "deep": [{ "role": "user", "content": "x", "severity": 3 }, { "type": "remove", "item": 5 }],
    })
}

async fn state(desk: &Desk, thread: &str) -> Value {
    desk.get(&format!("/threads/{thread}/state")).await.1["values"].clone()
}

#[tokio::test]
async fn data_that_looks_like_messages_is_never_translated() {
    let desk = desk().await;
    for graph in ["keeps", "outer"] {
        let thread = desk.thread().await;
        let input = json!({ "messages": "hello", "doc": lookalike() });
        let modes = json!(["values", "updates", "tasks", "debug", "checkpoints", "events"]);
        let body = json!({ "assistant_id": graph, "input": input, "stream_mode": modes, "stream_subgraphs": true });
        let received = desk.stream(&thread, body).await;
        let first = said(&received, "values")[0];
        assert_eq!((&first["doc"], &first["messages"][0]["type"]), (&lookalike(), &json!("human")));
        let text =
            serde_json::to_string(&received.iter().map(|received| &received.data).collect::<Vec<_>>()).expect("JSON");
        assert_eq!(text.matches("\"severity\":3").count(), text.matches("\"decision\":\"approve\"").count());
        let body =
            json!({ "assistant_id": graph, "command": { "resume": lookalike(), "update": { "doc": [lookalike()] } } });
        let (status, ended) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
        assert_eq!(status, 200, "{ended}");
        assert_eq!(ended["log"], json!([lookalike()]), "the node has what was answered");
        assert_eq!(ended["doc"], json!([lookalike()]));
        let kinds: Vec<&str> = ended["messages"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|message| message["type"].as_str())
            .collect();
        assert_eq!(kinds, ["human", "ai"], "messages are translated");
        let change = json!({ "values": { "doc": lookalike(), "messages": [{ "role": "user", "content": "more" }] } });
        assert_eq!(desk.post(&format!("/threads/{thread}/state"), change).await.0, 200);
        let values = state(&desk, &thread).await;
        assert_eq!((&values["doc"], &values["messages"][2]["type"]), (&lookalike(), &json!("human")));
        let (_, row) = desk.get(&format!("/threads/{thread}")).await;
        assert_eq!((&row["values"]["doc"], &row["values"]["messages"][2]["type"]), (&lookalike(), &json!("human")));
        let (_, history) = desk.post(&format!("/threads/{thread}/history"), json!({ "limit": 20 })).await;
        let listed = history.as_array().expect("a list");
        assert!(
            listed.iter().all(
                |state| state["values"]["doc"].is_null() || state["values"]["doc"].to_string().contains("severity")
            )
        );
    }
    desk.stop().await;
}

#[tokio::test]
async fn messages_of_inner_graphs_are_translated() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let body = json!({
        "assistant_id": "outer", "input": { "messages": "hello" }, "stream_mode": ["values", "tasks"], "stream_subgraphs": true,
    });
    let received = desk.stream(&thread, body).await;
    let inner =
        received.iter().find(|received| received.event.starts_with("values|inner")).expect("values of the inner graph");
    assert_eq!(inner.data["messages"][0]["type"], "human");
    let task =
        received.iter().find(|received| received.event.starts_with("tasks|inner")).expect("a task of the inner graph");
    assert_eq!(task.data["input"]["messages"][0]["type"], "human");
    let (_, state) = desk.get(&format!("/threads/{thread}/state?subgraphs=true")).await;
    assert_eq!(state["tasks"][0]["state"]["values"]["messages"][0]["type"], "human");
    desk.stop().await;
}

/// The 12 forms that LangChain's clients send, and those of providers.
fn blocks() -> Vec<Value> {
    vec![
        json!({ "type": "image_url", "image_url": { "url": "https://x.example/1.png" } }),
        json!({ "type": "image", "url": "https://x.example/1.png" }),
        json!({ "type": "image", "mimeType": "image/png", "data": "aGk=", "metadata": { "name": "dot.png" } }),
        json!({ "type": "image", "source_type": "base64", "mime_type": "image/png", "data": "aGk=" }),
        json!({ "type": "image", "base64": "aGk=", "mime_type": "image/png" }),
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } }),
        json!({ "type": "file", "mimeType": "application/pdf", "data": "aGk=", "metadata": { "filename": "a.pdf" } }),
        json!({ "type": "file", "source_type": "base64", "mime_type": "application/pdf", "data": "aGk=" }),
        json!({ "type": "file", "base64": "aGk=", "mime_type": "application/pdf" }),
        json!({ "type": "file", "file_id": "f1" }),
        json!({ "type": "audio", "mime_type": "audio/wav", "data": "aGk=" }),
        json!({ "type": "video", "mime_type": "video/mp4", "base64": "aGk=" }),
        json!({ "type": "text-plain", "text": "hi", "mime_type": "text/plain" }),
        json!({ "type": "input_audio", "input_audio": { "data": "aGk=", "format": "wav" } }),
    ]
}

#[tokio::test]
async fn uploads_are_stored_unchanged() {
    let desk = desk().await;
    for block in blocks() {
        let content = json!([{ "type": "text", "text": "with a file" }, block]);
        let message = json!({ "type": "human", "content": content, "id": "1" });
        let body = json!({ "assistant_id": "idle", "input": { "messages": [message] } });
        let (status, ended) = desk.post("/runs/wait", body).await;
        assert_eq!(status, 200, "{block}: {ended}");
        assert_eq!(ended["messages"][0]["content"], content);
    }
    desk.stop().await;
}

#[tokio::test]
async fn model_is_sent_images_and_files_of_every_form_and_no_fields_of_clients() {
    let model = ScriptedModel::reacting(|_| Message::assistant("seen"));
    let desk =
        open(server().graph("sees", crate::graphs::Chat::compile_as_root(), BaseContext::new(model.clone()))).await;
    let message = json!({ "type": "human", "content": blocks(), "name": "eva", "additional_kwargs": { "k": 1 } });
    let body = json!({ "assistant_id": "sees", "input": { "messages": [message] }, "stream_mode": ["values"] });
    let received = desk.events(Method::POST, "/runs/stream", body).await;
    assert!(!names(&received).contains(&"error"), "{received:?}");
    assert!(!model.requests().is_empty());
    desk.stop().await;
}

#[tokio::test]
async fn fields_of_messages_survive_every_route() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let messages = json!([
        { "type": "human", "content": "x", "id": "1", "name": "bob", "additional_kwargs": { "x": 1 }, "response_metadata": { "y": 2 } },
        { "type": "ai", "content": "", "id": "2", "tool_calls": [{ "name": "look", "args": {}, "id": "c", "type": "tool_call" }] },
        { "type": "tool", "content": "x", "id": "3", "tool_call_id": "c", "name": "look", "artifact": { "rows": [1] } },
    ]);
    let body = json!({ "assistant_id": "idle", "input": { "messages": messages }, "stream_mode": ["values", "messages-tuple"] });
    let received = desk.stream(&thread, body).await;
    let whole = said(&received, "values").last().expect("values")["messages"].clone();
    for values in [whole, state(&desk, &thread).await["messages"].clone()] {
        assert_eq!((&values[0]["name"], &values[0]["additional_kwargs"]), (&json!("bob"), &json!({ "x": 1 })));
        assert_eq!(values[0]["response_metadata"], json!({ "y": 2 }));
        assert_eq!(values[2]["artifact"], json!({ "rows": [1] }));
        assert!(values[0].get("extra").is_none());
    }
    desk.stop().await;
}

#[tokio::test]
async fn shorthands_and_removals_of_messages_are_accepted() {
    let desk = desk().await;
    let thread = desk.thread().await;
    for messages in [json!("hello"), json!({ "role": "user", "content": "hello" }), json!([["user", "hello"]])] {
        let body = json!({ "assistant_id": "idle", "input": { "messages": messages } });
        let (status, ended) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
        assert_eq!((status, &ended["messages"][0]["content"]), (200, &json!("hello")), "{messages}: {ended}");
    }
    assert_eq!(state(&desk, &thread).await["messages"].as_array().map(Vec::len), Some(3));
    let values = json!({ "messages": [
        { "type": "remove", "id": "__remove_all__" },
        { "type": "human", "content": "a", "id": "1" },
        { "type": "human", "content": "b", "id": "1" },
    ] });
    let (status, changed) = desk.post(&format!("/threads/{thread}/state"), json!({ "values": values })).await;
    assert_eq!(status, 200, "{changed}");
    let left = state(&desk, &thread).await["messages"].clone();
    assert_eq!((left.as_array().map(Vec::len), &left[0]["content"]), (Some(1), &json!("b")));
    desk.stop().await;
}

/// The connector of `CopilotKit` adds its own fields to every input, and to the state when it regenerates an answer.
#[tokio::test]
async fn fields_of_connectors_are_removed_without_such_a_channel() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let input = json!({ "messages": "hello", "tools": [], "ag-ui": { "tools": [] }, "copilotkit": { "actions": [] } });
    let body = json!({ "assistant_id": "idle", "input": input });
    let (status, ended) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
    assert_eq!(status, 200, "{ended}");
    let (status, changed) = desk.post(&format!("/threads/{thread}/state"), json!({ "values": input })).await;
    assert_eq!(status, 200, "{changed}");
    let body = json!({ "assistant_id": "idle", "input": { "messages": "hello", "tolls": [] } });
    let (status, refused) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
    assert!(status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains("`tolls`")), "{refused}");
    desk.stop().await;
}

#[tokio::test]
async fn answer_to_a_question_that_is_not_open_is_refused_before_the_run() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    let (_, asked) = desk.post(&wait, json!({ "assistant_id": "keeps", "input": { "messages": "hello" } })).await;
    let id = asked["__interrupt__"][0]["id"].as_str().expect("an id").to_owned();
    let unknown = "0".repeat(32);
    let answer = |id: &str| json!({ "assistant_id": "keeps", "command": { "resume": { id: "yes" } } });
    let (status, refused) = desk.post(&wait, answer(&unknown)).await;
    let detail = refused["detail"].as_str().expect("a text");
    assert!(status == 422 && detail.contains(&unknown) && detail.contains(&id), "{refused}");
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "interrupted", "nothing has changed");
    let (status, ended) = desk.post(&wait, answer(&id)).await;
    assert_eq!((status, &ended["log"]), (200, &json!(["yes"])), "{ended}");
    let (status, refused) = desk.post(&wait, answer(&id)).await;
    assert!(
        status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains("has no open questions")),
        "{refused}"
    );
    desk.stop().await;
}

/// An answer that is addressed to a checkpoint is compared with the questions of that checkpoint, not with the thread's current ones.
#[tokio::test]
async fn question_of_an_older_checkpoint_is_answered_there_once() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    let ask = async || {
        let input = json!({ "assistant_id": "keeps", "input": { "messages": "hello" } });
        let (_, asked) = desk.post(&wait, input).await;
        let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
        (asked["__interrupt__"][0]["id"].as_str().expect("an id").to_owned(), state["checkpoint"].clone())
    };
    let (older, at) = ask().await;
    let (latest, _) = ask().await;
    assert_ne!(older, latest);
    let answer = |id: &str, at: Option<&Value>| {
        let mut body = json!({ "assistant_id": "keeps", "command": { "resume": { id: "yes" } } });
        body["checkpoint"] = at.cloned().unwrap_or_default();
        body
    };
    for (id, at) in [(&older, None), (&latest, Some(&at))] {
        let (status, refused) = desk.post(&wait, answer(id, at)).await;
        assert_eq!(status, 422, "{refused}");
    }
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "interrupted", "nothing has changed");
    let (status, ended) = desk.post(&wait, answer(&older, Some(&at))).await;
    assert_eq!((status, &ended["log"]), (200, &json!(["yes"])), "{ended}");
    let (status, refused) = desk.post(&wait, answer(&older, Some(&at))).await;
    assert!(status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains(&older)), "{refused}");
    desk.stop().await;
}

/// Messages in the form that clients read find their thread.
#[tokio::test]
async fn threads_are_found_by_their_messages_as_clients_read_them() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let hello = json!({ "type": "human", "content": "hello", "id": "m1" });
    let run = json!({ "assistant_id": "idle", "input": { "messages": [hello], "doc": lookalike() } });
    desk.post(&format!("/threads/{thread}/runs/wait"), run).await;
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["values"]["messages"][0]["type"], "human", "{row}");
    for (values, found) in [
        (row["values"].clone(), 1),
        (json!({ "messages": [{ "type": "human" }] }), 1),
        (json!({ "messages": [{ "type": "human", "content": "hello" }], "doc": lookalike() }), 1),
        (json!({ "doc": { "type": "human" } }), 1),
        (json!({ "messages": [{ "type": "ai" }] }), 0),
        (json!({ "messages": [{ "type": "human", "name": "bob" }] }), 0),
    ] {
        let (status, counted) = desk.post("/threads/count", json!({ "values": values })).await;
        assert_eq!((status, counted), (200, json!(found)), "{values}");
        let (_, listed) = desk.post("/threads/search", json!({ "values": values, "select": ["thread_id"] })).await;
        assert_eq!(listed.as_array().map(Vec::len), Some(found), "{values}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn fields_are_selected_by_name_and_minimal_answers_are_empty() {
    let desk = desk().await;
    let thread = desk.thread().await;
    desk.post(
        &format!("/threads/{thread}/runs/wait"),
        json!({ "assistant_id": "idle", "input": { "messages": "hello" } }),
    )
    .await;
    for select in ["select=run_id&select=status", "select=run_id,status", "select=%5B%22run_id%22,%22status%22%5D"] {
        let (status, runs) = desk.get(&format!("/threads/{thread}/runs?{select}")).await;
        assert_eq!((status, runs[0].as_object().map(serde_json::Map::len)), (200, Some(2)), "{select}: {runs}");
    }
    for (path, body) in
        [("/threads/search", json!({ "select": ["nope"] })), ("/assistants/search", json!({ "select": ["nope"] }))]
    {
        let (status, refused) = desk.post(path, body).await;
        assert!(status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains("`nope`")), "{refused}");
    }
    let (status, refused) = desk.get(&format!("/threads/{thread}/runs?select=nope")).await;
    assert!(status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains("run_id")), "{refused}");
    let request = desk.client.patch(format!("{}/threads/{thread}", desk.base)).header("prefer", "return=minimal");
    let response = request.json(&json!({ "metadata": { "a": 1 } })).send().await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.text().await.expect("a body")), (204, String::new()));
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["metadata"]["a"], 1);
    desk.stop().await;
}

#[tokio::test]
async fn assistant_has_a_name_and_one_context() {
    let desk = desk().await;
    let (status, made) = desk.post("/assistants", json!({ "graph_id": "idle" })).await;
    assert_eq!((status, &made["name"]), (200, &json!("Untitled")), "{made}");
    let both = json!({ "graph_id": "idle", "config": { "configurable": { "a": 1 } }, "context": { "b": 2 } });
    let (status, refused) = desk.post("/assistants", both).await;
    assert!(
        status == 400 && refused["detail"].as_str().is_some_and(|text| text.contains("send only `context`")),
        "{refused}"
    );
    desk.stop().await;
}
