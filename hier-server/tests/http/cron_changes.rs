//! Changes of crons that the server would not create.

use std::sync::Arc;

use hier_core::graph::Graph as _;
use hier_core::runs::{Crons, MemoryRuns};
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_server::auth::{Tokens, User};
use reqwest::Method;
use serde_json::{Value, json};

use crate::crons::{ended, hurry};
use crate::graphs::{Two, server};
use crate::support::{Desk, as_user, desk, open};

/// A schedule that is not due during a test.
const YEARLY: &str = "0 0 1 1 *";
/// A schedule that is never due.
const NEVER: &str = "0 0 30 2 *";

async fn create(desk: &Desk, schedule: &str, enabled: bool) -> (u16, Value) {
    let body = json!({ "assistant_id": "two", "schedule": schedule, "input": { "n": 1 }, "enabled": enabled });
    desk.post("/runs/crons", body).await
}

fn path(cron: &Value) -> String {
    format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"))
}

/// Crons of an earlier version of the server may have the strategy `inject`.
#[tokio::test]
async fn strategy_inject_is_refused_only_in_requests() {
    let store = MemoryRuns::new();
    let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let path = path(&create(&desk, YEARLY, true).await.1);
    let inject = json!({ "multitask_strategy": "inject" });
    let refused = "`multitask_strategy`: a cron cannot `inject`: use `enqueue`, `interrupt`, `rollback` or `reject`";
    let expected = (422, json!({ "detail": refused }));
    assert_eq!(desk.ask(Method::PATCH, &path, inject.clone()).await, expected);

    let crons = Crons::of(&store);
    let mut old = crons.search(&hier_core::runs::CronQuery::default()).await.expect("crons").remove(0);
    old.payload.as_mut().expect("a payload")["multitask_strategy"] = json!("inject");
    assert!(crons.replace(&old).await.expect("a change"));
    let (status, paused) = desk.ask(Method::PATCH, &path, json!({ "enabled": false })).await;
    assert_eq!((status, &paused["enabled"]), (200, &json!(false)), "{paused}");
    assert_eq!(desk.ask(Method::PATCH, &path, inject).await, expected);
    let (status, changed) = desk.ask(Method::PATCH, &path, json!({ "multitask_strategy": "reject" })).await;
    assert_eq!((status, &changed["payload"]["multitask_strategy"]), (200, &json!("reject")), "{changed}");
    desk.stop().await;
}

#[tokio::test]
async fn only_an_enabled_cron_must_be_due() {
    let desk = desk().await;
    let never = "`schedule`: `0 0 30 2 *` is never due: change it";
    assert_eq!(create(&desk, NEVER, true).await, (422, json!({ "detail": never })));
    let (status, cron) = create(&desk, NEVER, false).await;
    assert_eq!((status, &cron["enabled"], &cron["next_run_date"]), (200, &json!(false), &Value::Null), "{cron}");
    let path = path(&cron);
    let change = async |body| desk.ask(Method::PATCH, &path, body).await;
    assert_eq!(change(json!({ "enabled": true })).await, (422, json!({ "detail": never })));
    assert_eq!(change(json!({ "metadata": { "k": 1 } })).await.0, 200);
    let (status, cron) = change(json!({ "enabled": true, "schedule": YEARLY })).await;
    assert!(status == 200 && cron["next_run_date"].is_string(), "{cron}");
    assert_eq!(change(json!({ "schedule": NEVER })).await, (422, json!({ "detail": never })));
    let (status, cron) = change(json!({ "enabled": false, "schedule": NEVER })).await;
    assert_eq!((status, &cron["next_run_date"]), (200, &Value::Null), "{cron}");
    desk.stop().await;
}

/// A cron whose assistant or graph no longer exists adds runs with its stored configuration until it is paused.
#[tokio::test]
async fn cron_without_its_assistant_or_graph_is_paused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("runs.db").display());
    let desk = open(server().database(&file)).await;
    let (_, assistant) = desk.post("/assistants", json!({ "graph_id": "two" })).await;
    let id = assistant["assistant_id"].as_str().expect("an id");
    let body = |assistant: &str| json!({ "assistant_id": assistant, "schedule": YEARLY, "input": { "n": 1 } });
    let (_, orphan) = desk.post("/runs/crons", body(id)).await;
    let (_, renamed) = desk.post("/runs/crons", body("slow")).await;
    assert_eq!(desk.ask(Method::DELETE, &format!("/assistants/{id}"), Value::Null).await.0, 204);
    desk.stop().await;
    // The next version of the program has no graph `slow`.
    let next = Server::new().graph("two", Two::compile(), ()).database(&file);
    let desk = open(next).await;
    for cron in [orphan, renamed] {
        let change = async |body| desk.ask(Method::PATCH, &path(&cron), body).await;
        let (status, paused) = change(json!({ "enabled": false, "metadata": { "k": 1 } })).await;
        assert_eq!(
            (status, &paused["enabled"], &paused["metadata"]),
            (200, &json!(false), &json!({ "k": 1 })),
            "{paused}"
        );
        assert_eq!(paused["payload"]["input"], cron["payload"]["input"]);
        for invalid in [json!({ "input": { "n": 2 } }), json!({ "enabled": true })] {
            assert_eq!(change(invalid.clone()).await.0, 404, "{invalid}: the run cannot be checked");
        }
    }
    desk.stop().await;
}

/// The other assistant belongs to another user, who cannot choose the configuration of the cron.
#[tokio::test]
async fn cron_does_not_use_a_later_assistant_with_the_same_id() {
    let store = MemoryRuns::new();
    let tokens = Tokens::new([("alice", User::new("alice")), ("bob", User::new("bob"))]);
    let served = server().auth(tokens).storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
    let desk = open(served).await;
    let id = "a6e9e8ea-951a-46df-856e-d000635e5ac9";
    let create = async |token: &str| {
        let body = json!({ "assistant_id": id, "graph_id": "two", "context": { "by": token } });
        assert_eq!(as_user(&desk, token, Method::POST, "/assistants", body).await.0, 200);
    };
    create("alice").await;
    let body = json!({ "assistant_id": id, "schedule": YEARLY, "input": { "n": 1 }, "on_run_completed": "keep" });
    assert_eq!(as_user(&desk, "alice", Method::POST, "/runs/crons", body).await.0, 200);
    let path = format!("/assistants/{id}");
    assert_eq!(as_user(&desk, "alice", Method::DELETE, &path, json!({})).await.0, 204);
    create("bob").await;
    hurry(&store).await;
    let run = ended(&store, 1).await.remove(0);
    assert_eq!(run.request.context, json!({ "by": "alice" }));
    desk.stop().await;
}
