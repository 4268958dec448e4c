//! The same server on its databases.

use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, open};

/// The storage of a thread is reported in parts that add up, for a copy as for its original.
async fn is_measured(desk: &Desk, thread: &str, copy: &str, checkpoints: usize) {
    let (status, received) = desk.get(&format!("/threads/{thread}/storage")).await;
    assert_eq!((status, &received["thread_id"]), (200, &json!(thread)), "{received}");
    let number = |pointer: &str| {
        received.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {received}"))
    };
    let parts = ["/checkpoints/bytes", "/channel_values/bytes", "/pending_writes/bytes"].map(number);
    assert!(parts.iter().all(|bytes| *bytes > 0), "{received}");
    assert_eq!(number("/total_bytes"), parts.iter().sum::<u64>());
    assert_eq!(number("/checkpoints/count"), checkpoints as u64);
    // Three nodes write to it.
    assert_eq!(number("/channel_values/by_channel/log/versions"), 3, "{received}");
    let of: Vec<&Value> = received["channel_values"]["by_channel"].as_object().expect("channels").values().collect();
    let sum = |name: &str| of.iter().filter_map(|of| of[name].as_u64()).sum::<u64>();
    assert_eq!((sum("versions"), sum("bytes")), (number("/channel_values/count"), number("/channel_values/bytes")));
    let (_, of_copy) = desk.get(&format!("/threads/{copy}/storage")).await;
    assert_eq!(
        (&of_copy["channel_values"], &of_copy["checkpoints"]["count"]),
        (&received["channel_values"], &received["checkpoints"]["count"])
    );
    // Pruned checkpoints take no space, and remaining values are complete.
    let prune = json!({ "thread_ids": [copy], "strategy": "keep_latest" });
    assert_eq!(desk.post("/threads/prune", prune).await.0, 200);
    let (_, pruned) = desk.get(&format!("/threads/{copy}/storage")).await;
    assert_eq!(pruned["checkpoints"]["count"], 1, "{pruned}");
    assert!(pruned["total_bytes"].as_u64() < received["total_bytes"].as_u64(), "{pruned}");
    assert!(pruned["channel_values"]["by_channel"]["log"]["bytes"].as_u64() > Some(0), "{pruned}");
}

#[tokio::test]
async fn thread_that_never_ran_has_no_storage() {
    let desk = open(server()).await;
    let thread = desk.thread().await;
    let nothing = json!({ "count": 0, "bytes": 0 });
    let values = json!({ "count": 0, "bytes": 0, "by_channel": {} });
    let want = json!({
        "thread_id": thread, "total_bytes": 0, "checkpoints": nothing, "channel_values": values, "pending_writes": nothing,
    });
    assert_eq!(desk.get(&format!("/threads/{thread}/storage")).await, (200, want));
    let unknown = "0197a3c4-0000-7000-8000-000000000000";
    assert_eq!(desk.get(&format!("/threads/{unknown}/storage")).await.0, 404);
    desk.stop().await;
}

#[tokio::test]
async fn memory_is_served() {
    is_served(open(server()).await).await;
}

/// A run with a question, its answer, a stream and a cron, on each database.
async fn is_served(desk: Desk) -> String {
    let thread = desk.thread().await;
    let runs = format!("/threads/{thread}/runs");
    let (status, asked) =
        desk.post(&format!("{runs}/wait"), json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    assert_eq!((status, &asked["__interrupt__"][0]["value"]["question"]), (200, &json!("ok?")));
    let answer = json!({ "assistant_id": "hitl", "command": { "resume": "yes" }, "stream_mode": ["values"] });
    let received = desk.stream(&thread, answer).await;
    assert_eq!(
        received.last().map(|received| &received.data),
        Some(&json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] }))
    );
    let (_, found) =
        desk.post("/threads/search", json!({ "ids": [thread], "values": { "n": 4.0 }, "status": "idle" })).await;
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let (_, history) = desk.post(&format!("/threads/{thread}/history"), json!({ "limit": 20 })).await;
    assert!(history.as_array().is_some_and(|history| history.len() >= 4), "{history}");
    let (status, copy) = desk.post(&format!("/threads/{thread}/copy"), json!({})).await;
    assert_eq!((status, &copy["values"]), (200, &json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] })));
    let checkpoints = history.as_array().map_or(0, Vec::len);
    is_measured(&desk, &thread, copy["thread_id"].as_str().expect("an id"), checkpoints).await;
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
async fn file_is_served_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("desk.db").display());
    let thread = is_served(open(server().database(&url)).await).await;
    let again = open(server().database(&url)).await;
    assert_eq!(again.get(&format!("/threads/{thread}")).await.1["values"]["n"], 4.0);
    again.stop().await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn postgres_is_served_again_after_a_restart() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let thread = is_served(open(server().database(&url)).await).await;
    let again = open(server().database(&url)).await;
    assert_eq!(again.get(&format!("/threads/{thread}")).await.1["values"]["n"], 4.0);
    again.stop().await;
}

/// A stream waits without a connection: with two connections, twenty streams and their runs continue.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn streams_hold_no_connection_of_the_pool() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let runs = hier_postgres::Postgres::options().connections(2).connect(&url).await.expect("a database");
    runs.migrate().await.expect("tables");
    let store = std::sync::Arc::new(hier_core::store::MemoryStore::default());
    let desk = open(server().storage(std::sync::Arc::new(runs), store)).await;
    let thread = desk.thread().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let path = format!("/threads/{thread}/stream");
        streams.push((desk.send(reqwest::Method::GET, &path, &Value::Null).await, String::new()));
    }
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    let (status, ended) = desk.post(&format!("/threads/{thread}/runs/wait"), run).await;
    assert_eq!((status, &ended["n"]), (200, &json!(4.0)));
    for (stream, text) in &mut streams {
        let is_done = |received: &[crate::support::SentEvent]| {
            received.iter().any(|received| received.data["status"] == "run_done")
        };
        desk.until(stream, text, is_done).await;
    }
    drop(streams);
    desk.stop().await;
}
