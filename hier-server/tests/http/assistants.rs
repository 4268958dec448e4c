//! Assistants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hier_core::graph::Graph as _;
use hier_core::runs::{AssistantPatch, Assistants, MemoryRuns, NewAssistant};
use hier_core::store::MemoryStore;
use hier_server::Server;
use reqwest::Method;
use serde_json::json;

use crate::graphs::{Hitl, server};
use crate::support::{Fate, HookedStore, StoreCall, desk, open};

#[tokio::test]
async fn each_graph_has_a_default_assistant() {
    let desk = desk().await;
    let (status, found) = desk.post("/assistants/search", json!({ "graph_id": "two" })).await;
    assert_eq!(status, 200);
    // UUIDs of version 5 in the URL namespace, as in LangGraph.
    assert_eq!(found[0]["assistant_id"], "4499204c-8eda-5495-a842-3696dc7527c7");
    assert_eq!(found[0]["metadata"], json!({ "created_by": "system" }));
    assert_eq!((&found[0]["version"], &found[0]["name"]), (&json!(1), &json!("two")));
    assert_eq!(desk.post("/assistants/count", json!({})).await.1, json!(6));
    desk.stop().await;
}

#[tokio::test]
async fn assistants_have_versions() {
    let desk = desk().await;
    let id = "a6e9e8ea-951a-46df-856e-d000635e5ac9";
    let body =
        json!({ "assistant_id": id, "graph_id": "two", "config": { "configurable": { "k": 1 } }, "name": "mine" });
    let (status, made) = desk.post("/assistants", body.clone()).await;
    assert_eq!((status, &made["context"]), (200, &json!({ "k": 1 })));
    let (status, error) = desk.post("/assistants", body.clone()).await;
    assert_eq!((status, error), (409, json!({ "detail": format!("Assistant with ID {id} already exists") })));
    let mut again = body;
    again["if_exists"] = "do_nothing".into();
    assert_eq!(desk.post("/assistants", again).await.0, 200);
    let path = format!("/assistants/{id}");
    let (_, changed) = desk.ask(Method::PATCH, &path, json!({ "metadata": { "z": 2 }, "name": "mine2" })).await;
    assert_eq!((&changed["version"], &changed["name"]), (&json!(2), &json!("mine2")));
    let (_, versions) = desk.post(&format!("{path}/versions"), json!({})).await;
    assert_eq!(versions.as_array().map(Vec::len), Some(2));
    let (_, latest) = desk.post(&format!("{path}/latest"), json!({ "version": 1 })).await;
    assert_eq!(latest["name"], "mine");
    assert_eq!(desk.post(&format!("{path}/latest"), json!({ "version": 9 })).await.0, 404);
    assert_eq!(desk.ask(Method::DELETE, &path, json!(null)).await.0, 204);
    let (status, error) = desk.get(&path).await;
    assert_eq!((status, error), (404, json!({ "detail": format!("Assistant with ID {id} not found") })));
    desk.stop().await;
}

#[tokio::test]
async fn default_assistant_stays_with_its_graph() {
    let desk = desk().await;
    let path = "/assistants/4499204c-8eda-5495-a842-3696dc7527c7";
    let (status, error) = desk.ask(Method::PATCH, path, json!({ "graph_id": "hitl" })).await;
    assert!(status == 422 && error.to_string().contains("`graph_id`"), "{status} {error}");
    let change = json!({ "graph_id": "two", "description": "adds", "config": { "recursion_limit": 9 } });
    assert_eq!(desk.ask(Method::PATCH, path, change).await.1["version"], 2);
    assert_eq!(desk.ask(Method::DELETE, path, json!(null)).await.0, 204);
    // Runs that name only their graph need it.
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post("/runs/wait", run).await.1["n"], 4.0);
    assert_eq!(desk.get(path).await.1["version"], 1);
    desk.stop().await;
}

/// Servers of one database may have different graphs.
#[tokio::test]
async fn default_assistant_waits_for_its_graph() {
    let store = MemoryRuns::new();
    let on_store = |server: Server| open(server.storage(Arc::new(store.clone()), Arc::new(MemoryStore::default())));
    let path = "/assistants/4499204c-8eda-5495-a842-3696dc7527c7";
    on_store(server()).await.stop().await;

    let other = on_store(Server::new().graph("hitl", Hitl::compile(), ())).await;
    for change in [json!({ "graph_id": "hitl" }), json!({ "metadata": { "created_by": "me" } })] {
        let (status, error) = other.ask(Method::PATCH, path, change).await;
        assert_eq!(status, 422, "{error}");
    }
    assert_eq!(other.ask(Method::PATCH, path, json!({ "description": "adds" })).await.1["version"], 2);
    other.stop().await;
    // As earlier versions of the server did.
    let assistants = Assistants::of(&store);
    let mut moved = AssistantPatch::default();
    moved.graph = Some("hitl".to_owned());
    assistants.update(&path["/assistants/".len()..], moved).await.expect("an assistant");

    let desk = on_store(server()).await;
    let (_, found) = desk.get(path).await;
    assert_eq!(
        (&found["graph_id"], &found["description"], &found["version"]),
        (&json!("two"), &json!("adds"), &json!(2))
    );
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post("/runs/wait", run.clone()).await.1["log"], json!(["a", "b"]));
    let (status, error) = desk.post(&format!("{path}/latest"), json!({ "version": 3 })).await;
    assert!(status == 422 && error.to_string().contains("default assistant of another graph"), "{status} {error}");
    assert_eq!(desk.post(&format!("{path}/latest"), json!({ "version": 1 })).await.0, 200);

    // A server without the graph deletes the assistant.
    let other = on_store(Server::new().graph("hitl", Hitl::compile(), ())).await;
    assert_eq!(other.ask(Method::DELETE, path, json!(null)).await.0, 204);
    other.stop().await;
    assert_eq!(desk.post("/runs/wait", run).await.1["log"], json!(["a", "b"]));
    assert_eq!(desk.get(path).await.1["version"], 1);
    desk.stop().await;
}

/// The id of the default assistant of the graph `two`.
const TWO: &str = "4499204c-8eda-5495-a842-3696dc7527c7";

/// Configures the default assistant of `two` for `hitl`, as earlier versions of the server did.
async fn move_to_hitl(store: &MemoryRuns) {
    let mut moved = AssistantPatch::default();
    moved.graph = Some("hitl".to_owned());
    moved.config = Some(json!({ "recursion_limit": 9 }).as_object().expect("an object").clone());
    moved.context = Some(json!({ "prompt": "for hitl" }));
    Assistants::of(store).update(TWO, moved).await.expect("an assistant");
}

/// The configuration was made for the other graph.
#[tokio::test]
async fn default_assistant_returns_to_its_graph_with_its_own_configuration() {
    let store = MemoryRuns::new();
    let start = async || {
        let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
        let (_, found) = desk.get(&format!("/assistants/{TWO}")).await;
        desk.stop().await;
        (found["graph_id"].clone(), found["version"].clone(), found["context"].clone(), found["config"].clone())
    };
    assert_eq!(start().await, (json!("two"), json!(1), json!({}), json!({})));
    let mut own = AssistantPatch::default();
    own.context = Some(json!({ "prompt": "for two" }));
    Assistants::of(&store).update(TWO, own).await.expect("an assistant");
    move_to_hitl(&store).await;
    move_to_hitl(&store).await;
    assert_eq!(start().await, (json!("two"), json!(2), json!({ "prompt": "for two" }), json!({})));

    // It has never belonged to its own graph.
    Assistants::of(&store).delete(TWO).await.expect("an assistant");
    let mut foreign = NewAssistant::new(TWO, "hitl");
    foreign.context = json!({ "prompt": "for hitl" });
    foreign.metadata.insert("created_by".to_owned(), json!("system"));
    Assistants::of(&store).create(foreign).await.expect("an assistant");
    assert_eq!(start().await, (json!("two"), json!(1), json!({}), json!({})));
}

/// The process deletes it before each of the server's reads in turn.
#[tokio::test]
async fn server_starts_if_another_process_deletes_a_default_assistant() {
    for place in 0..3 {
        let (is_moved, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let store = HookedStore::new({
            let (is_moved, reads) = (is_moved.clone(), reads.clone());
            move |call| match call {
                StoreCall::LoadDocument(TWO)
                    if is_moved.load(Ordering::SeqCst) && reads.fetch_add(1, Ordering::SeqCst) == place =>
                {
                    Fate::Deleted
                }
                _ => Fate::Done,
            }
        });
        let start = async || open(server().storage(store.clone(), Arc::new(MemoryStore::default()))).await;
        start().await.stop().await;
        move_to_hitl(&store.runs).await;
        is_moved.store(true, Ordering::SeqCst);
        start().await.stop().await;
        assert!(reads.load(Ordering::SeqCst) > place, "another process deleted it before read {place}");
        let found = Assistants::of(&store.runs).get(TWO).await.expect("the store").expect("a new default assistant");
        assert_eq!((&*found.graph, found.version, found.context), ("two", 1, json!(null)), "{place}");
    }
}

/// An earlier version of the server let a user change the graph of a default assistant.
#[tokio::test]
async fn default_assistant_can_return_to_its_graph() {
    let store = MemoryRuns::new();
    let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let path = "/assistants/4499204c-8eda-5495-a842-3696dc7527c7";
    let mut moved = AssistantPatch::default();
    moved.graph = Some("hitl".to_owned());
    Assistants::of(&store).update(&path["/assistants/".len()..], moved).await.expect("an assistant");
    let (status, found) = desk.ask(Method::PATCH, path, json!({ "graph_id": "two" })).await;
    assert_eq!((status, &found["graph_id"]), (200, &json!("two")), "{found}");
    desk.stop().await;
}

/// `config.configurable` and `context` are one value. A change of one part keeps the others.
#[tokio::test]
async fn change_of_a_configuration_keeps_its_other_parts() {
    let desk = desk().await;
    let body = json!({ "graph_id": "two", "config": { "tags": ["x"], "recursion_limit": 9 }, "context": { "k": 1 } });
    let (status, made) = desk.post("/assistants", body).await;
    assert_eq!(status, 200, "{made}");
    let path = format!("/assistants/{}", made["assistant_id"].as_str().expect("an id"));
    let change = async |body| {
        let (status, changed) = desk.ask(Method::PATCH, &path, body).await;
        assert_eq!(status, 200, "{changed}");
        (changed["config"].clone(), changed["context"].clone())
    };
    let configured = json!({ "recursion_limit": 50, "configurable": { "k": 1 } });
    assert_eq!(change(json!({ "config": { "recursion_limit": 50 } })).await, (configured, json!({ "k": 1 })));
    let configured = json!({ "recursion_limit": 50, "configurable": { "k": 2 } });
    assert_eq!(change(json!({ "context": { "k": 2 } })).await, (configured, json!({ "k": 2 })));
    let configured = json!({ "configurable": { "k": 3 } });
    assert_eq!(change(json!({ "config": { "configurable": { "k": 3 } } })).await, (configured, json!({ "k": 3 })));
    assert_eq!(change(json!({ "context": {} })).await, (json!({}), json!({})));
    let configured = json!({ "configurable": { "k": 4 } });
    assert_eq!(change(json!({ "context": { "k": 4 } })).await, (configured, json!({ "k": 4 })));
    assert_eq!(change(json!({ "config": { "configurable": {} } })).await, (json!({ "configurable": {} }), json!({})));
    desk.stop().await;
}

#[tokio::test]
async fn drawings_are_those_of_langgraph() {
    let desk = desk().await;
    let (status, closed) = desk.get("/assistants/sub/graph").await;
    assert_eq!(status, 200);
    let node = |name: &str| json!({ "id": name, "type": "runnable", "data": { "name": name } });
    assert_eq!(closed["nodes"], json!([node("__start__"), node("a"), node("child"), { "id": "__end__" }]));
    let edge = |source: &str, target: &str| json!({ "source": source, "target": target });
    assert_eq!(closed["edges"], json!([edge("__start__", "a"), edge("a", "child"), edge("child", "__end__")]));
    let (_, open) = desk.get("/assistants/sub/graph?xray=true").await;
    let names: Vec<_> = open["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["__start__", "a", "child:in1", "__end__"]);
    assert_eq!(desk.get("/assistants/sub/graph?xray=perhaps").await.0, 422);
    desk.stop().await;
}

#[tokio::test]
async fn errors_name_the_wrong_field() {
    let desk = desk().await;
    let (status, error) = desk.post("/assistants", json!({ "graph_id": "nope" })).await;
    assert_eq!(status, 404);
    assert!(
        error["detail"].as_str().unwrap().starts_with("Graph 'nope' not found. Expected one of: ['boom', "),
        "{error}"
    );
    let (status, error) = desk.post("/assistants", json!({})).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().contains("`graph_id`"), "{error}");
    let (status, error) = desk.get("/assistants/nosuch").await;
    assert_eq!((status, error), (422, json!({ "detail": "Invalid assistant ID: must be a UUID" })));
    let (status, error) = desk.post("/assistants/search", json!({ "limit": "many" })).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().starts_with("`limit`: "), "{error}");
    let (status, error) = desk.post("/assistants/search", json!({ "sort_by": "colour" })).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().starts_with("`sort_by`: "), "{error}");
    desk.stop().await;
}

#[tokio::test]
async fn schemas_come_from_the_types_of_the_channels() {
    let desk = desk().await;
    let (status, schemas) = desk.get("/assistants/4499204c-8eda-5495-a842-3696dc7527c7/schemas").await;
    assert_eq!((status, &schemas["graph_id"]), (200, &json!("two")));
    for name in ["state_schema", "input_schema", "output_schema"] {
        let properties = &schemas[name]["properties"];
        assert_eq!(properties["n"], json!({ "type": "number", "format": "double" }), "{name}");
        assert_eq!(properties["log"], json!({ "type": "array", "items": { "type": "string" } }), "{name}");
    }
    let chat = uuid::Uuid::new_v5(&uuid::Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8), b"chat");
    let (_, schemas) = desk.get(&format!("/assistants/{chat}/schemas")).await;
    // Those of a state that is flattened, too.
    for name in ["state_schema", "input_schema"] {
        let messages = &schemas[name]["properties"]["messages"];
        assert_eq!(messages, &json!({ "type": "array", "items": { "$ref": "#/$defs/Message" } }), "{name}");
        let message = &schemas[name]["$defs"]["Message"]["properties"];
        assert_eq!(message["type"], json!({ "enum": ["system", "human", "ai", "tool", "remove"] }), "as they are sent");
        assert!(message["tool_calls"].is_object() && message.get("role").is_none(), "{message}");
    }
    desk.stop().await;
}
