//! The same server on its databases.

use serde_json::json;

use crate::graphs::server;
use crate::support::{Desk, open};

/// A run with a question, its answer, a stream, a cron: what the database is asked for.
async fn is_served(desk: Desk) -> String {
    let thread = desk.thread().await;
    let runs = format!("/threads/{thread}/runs");
    let (status, asked) =
        desk.post(&format!("{runs}/wait"), json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    assert_eq!((status, &asked["__interrupt__"][0]["value"]["question"]), (200, &json!("ok?")));
    let answer = json!({ "assistant_id": "hitl", "command": { "resume": "yes" }, "stream_mode": ["values"] });
    let told = desk.stream(&thread, answer).await;
    assert_eq!(told.last().map(|told| &told.data), Some(&json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] })));
    let (_, found) =
        desk.post("/threads/search", json!({ "ids": [thread], "values": { "n": 4.0 }, "status": "idle" })).await;
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let (_, history) = desk.post(&format!("/threads/{thread}/history"), json!({ "limit": 20 })).await;
    assert!(history.as_array().is_some_and(|history| history.len() >= 4), "{history}");
    let (status, copy) = desk.post(&format!("/threads/{thread}/copy"), json!({})).await;
    assert_eq!((status, &copy["values"]), (200, &json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] })));
    let item = json!({ "namespace": ["notes"], "key": "k", "value": { "a": 1 } });
    assert_eq!(desk.ask(reqwest::Method::PUT, "/store/items", item).await.0, 204);
    assert_eq!(desk.get("/store/items?namespace=notes&key=k").await.1["value"], json!({ "a": 1 }));
    // Others may use the database, too.
    let own = json!({ "thread": thread });
    let cron = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 }, "metadata": own });
    assert_eq!(desk.post("/runs/crons", cron).await.0, 200);
    assert_eq!(desk.post("/runs/crons/count", json!({ "metadata": own })).await.1, json!(1));
    desk.stop().await;
    thread
}

#[tokio::test]
async fn a_file_is_served_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("desk.db").display());
    let thread = is_served(open(server().database(&url)).await).await;
    let again = open(server().database(&url)).await;
    assert_eq!(again.get(&format!("/threads/{thread}")).await.1["values"]["n"], 4.0);
    again.stop().await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_served_and_found_again() {
    let Ok(url) = std::env::var("HIER_TEST_POSTGRES") else {
        return eprintln!("skipped: HIER_TEST_POSTGRES is not set (scripts/postgres.sh with …)");
    };
    let thread = is_served(open(server().database(&url)).await).await;
    let again = open(server().database(&url)).await;
    assert_eq!(again.get(&format!("/threads/{thread}")).await.1["values"]["n"], 4.0);
    again.stop().await;
}
