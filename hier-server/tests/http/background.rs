//! Threads of background subagents behind the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use hier_agents::ChatRequest;
use hier_agents::prelude::*;
use hier_core::checkpoint::ListQuery;
use hier_core::runs::{MemoryRuns, RunStore};
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_testkit::ScriptedModel;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::open;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Team {
    #[state(flatten)]
    base: BaseState,
}

graph! { Lead<Team> = Agent { subagents: [Scout { background: true }] } }

graph! { Scout<Team> = Agent {} }

/// Starts a scout, waits for it, and ends.
fn lead(request: &ChatRequest) -> Message {
    if !request.tools.iter().any(|tool| tool.name == "scout") {
        return Message::assistant("found");
    }
    match request.messages.iter().filter(|message| !message.tool_calls().is_empty()).count() {
        0 => Message::call("scout", json!({ "task": "north" })),
        1 => Message::call("wait_for_subagents", json!({})),
        _ => Message::assistant("done"),
    }
}

async fn threads(store: &dyn RunStore) -> BTreeSet<String> {
    let listed = store.list(ListQuery::default()).await.expect("the checkpoints");
    listed.into_iter().map(|listed| listed.thread.to_string()).collect()
}

#[tokio::test]
async fn deleted_thread_takes_those_of_its_subagents_with_it() {
    let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
    let server = Server::new().graph("lead", Lead::compile(), BaseContext::new(ScriptedModel::reacting(lead)));
    let desk = open(server.storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    let (gone, stays) = (desk.thread().await, desk.thread().await);
    for thread in [&gone, &stays] {
        let body = json!({ "assistant_id": "lead", "input": { "messages": [{ "role": "user", "content": "Go." }] } });
        let (status, ended) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
        assert_eq!((status, &ended["current_agent_report"]), (200, &json!("done")), "{ended}");
    }
    let own = |all: &BTreeSet<String>, thread: &str| all.iter().filter(|other| other.starts_with(thread)).count();
    let before = threads(&*store).await;
    assert_eq!((own(&before, &gone), own(&before, &stays)), (2, 2), "{before:?}");
    let (status, error) = desk.ask(Method::DELETE, &format!("/threads/{gone}"), Value::Null).await;
    assert!((200..300).contains(&status), "{status} {error}");
    let after = threads(&*store).await;
    assert_eq!((own(&after, &gone), own(&after, &stays)), (0, 2), "{after:?}");
    desk.stop().await;
}
