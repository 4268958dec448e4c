//! Requests with long lists, whose work could grow with the product of two lengths. Such work never yields, so no time
//! limit ends it. It is done in linear time, or refused.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Desk, desk};

/// Bodies of searches with this filter.
fn searches(assistant: &str, filter: &Value) -> Vec<(String, Value)> {
    let metadata = json!({ "metadata": { "list": filter } });
    let with_metadata = ["/threads/search", "/threads/count", "/assistants/search", "/runs/crons/search"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("/assistants/{assistant}/versions")])
        .map(|path| (path, metadata.clone()));
    let values = json!({ "values": { "list": filter } });
    with_metadata.chain([("/threads/search".to_owned(), values)]).collect()
}

async fn refused(desk: &Desk, path: &str, body: &Value, words: &str) {
    let (status, answer) = desk.ask(Method::POST, path, body.clone()).await;
    assert_eq!(status, 422, "{path}: {answer}");
    assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{path}: {answer}");
}

#[tokio::test]
async fn searches_refuse_filters_with_many_nested_values() {
    let desk = desk().await;
    let (_, found) = desk.post("/assistants/search", json!({})).await;
    let assistant = found[0]["assistant_id"].as_str().expect("an assistant").to_owned();
    let nested = |count: usize| json!([(1..count).collect::<Vec<_>>(), "plain", 1]);
    for (path, body) in searches(&assistant, &nested(101)) {
        let words = "the lists of the filter contain lists and objects with 101 values: send at most 100";
        refused(&desk, &path, &body, words).await;
    }
    for (path, body) in searches(&assistant, &nested(100)) {
        let (status, answer) = desk.post(&path, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn searches_accept_long_lists_of_plain_values() {
    let desk = desk().await;
    let list: Vec<u32> = (0..100_000).collect();
    let reversed: Vec<u32> = list.iter().rev().copied().collect();
    let (status, _) = desk.post("/threads", json!({ "metadata": { "list": list } })).await;
    assert_eq!(status, 200);
    let search = json!({ "metadata": { "list": reversed }, "select": vec!["thread_id"; 100_000] });
    let (status, found) = desk.post("/threads/search", search).await;
    let fields = found[0].as_object().map(|thread| thread.keys().cloned().collect::<Vec<_>>());
    assert_eq!((status, fields), (200, Some(vec!["thread_id".to_owned()])));
    desk.stop().await;
}

#[tokio::test]
async fn ids_and_paths_are_limited() {
    let desk = desk().await;
    let ids = |count: usize| json!({ "ids": vec![uuid::Uuid::nil(); count] });
    let paths = |count: usize| -> Value {
        let paths = (0..count).map(|number| (format!("value {number}"), json!("values")));
        json!({ "extract": paths.collect::<serde_json::Map<_, _>>() })
    };
    for path in ["/threads/search", "/threads/count"] {
        refused(&desk, path, &ids(1_001), "`ids`: a search for 1001 threads is too large: send at most 1000").await;
        assert_eq!(desk.post(path, ids(1_000)).await.0, 200);
    }
    let thread = desk.thread().await;
    let runs = json!({ "thread_id": thread, "run_ids": vec![uuid::Uuid::nil(); 1_001] });
    refused(&desk, "/runs/cancel", &runs, "`run_ids`: 1001 runs are too many: send at most 1000").await;
    refused(&desk, "/threads/search", &paths(11), "`extract`: 11 paths are too many: send at most 10").await;
    assert_eq!(desk.post("/threads/search", paths(10)).await.0, 200);
    desk.stop().await;
}

/// The number of comparisons of unknown fields with known fields is limited for each body, not for each object.
#[tokio::test]
async fn comparisons_of_unknown_fields_are_limited_per_body() {
    let desk = desk().await;
    let unknown = |count: usize| -> Value {
        let fields = (0..count).map(|number| (format!("zz{number:03}"), Value::Null));
        Value::Object(fields.collect())
    };
    let misspelt = json!({ "inptu": 1 });
    let words = "unknown field `inptu`: did you mean `input`?";
    refused(&desk, "/runs/batch", &json!([unknown(64), unknown(64), misspelt]), words).await;
    let mut bodies = vec![unknown(64); 999];
    bodies.push(misspelt);
    refused(&desk, "/runs/batch", &Value::from(bodies), "run 0 of the batch: ").await;
    desk.stop().await;
}
