//! The memory across threads.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::desk;

#[tokio::test]
async fn items_are_put_found_and_deleted() {
    let desk = desk().await;
    for (user, a) in [("1", 1), ("2", 2)] {
        let item = json!({ "namespace": ["u", user], "key": "k", "value": { "a": a } });
        assert_eq!(desk.ask(Method::PUT, "/store/items", item).await.0, 204);
    }
    let (_, item) = desk.get("/store/items?namespace=u.1&key=k").await;
    assert_eq!((&item["namespace"], &item["value"]), (&json!(["u", "1"]), &json!({ "a": 1 })));
    assert_eq!(desk.get("/store/items?namespace=u.1&key=zz").await, (200, Value::Null));
    let (_, found) =
        desk.post("/store/items/search", json!({ "namespace_prefix": ["u"], "filter": { "a": { "$gt": 1 } } })).await;
    assert_eq!((found["items"].as_array().map(Vec::len), &found["items"][0]["score"]), (Some(1), &Value::Null));
    let (_, listed) = desk.post("/store/namespaces", json!({ "prefix": ["u"], "max_depth": 2 })).await;
    assert_eq!(listed, json!({ "namespaces": [["u", "1"], ["u", "2"]] }));
    let gone = json!({ "namespace": ["u", "1"], "key": "k" });
    assert_eq!(desk.ask(Method::DELETE, "/store/items", gone).await.0, 204);
    assert_eq!(desk.get("/store/items?namespace=u.1&key=k").await.1, Value::Null);
    let (status, error) =
        desk.ask(Method::PUT, "/store/items", json!({ "namespace": ["a.b"], "key": "k", "value": {} })).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().contains("'a.b'"), "{error}");
    let of_the_framework = json!({ "namespace": ["hier", "tools"], "key": "k", "value": {} });
    assert_eq!(desk.ask(Method::PUT, "/store/items", of_the_framework).await.0, 422);
    assert_eq!(desk.post("/store/items/search", json!({ "namespace_prefix": ["hier"] })).await.0, 422);
    assert_eq!(desk.get("/store/items?namespace=hier.tools&key=k").await.0, 422);
    let (status, error) = desk.post("/store/items/search", json!({ "filter": { "a": { "$like": 1 } } })).await;
    assert!(status == 422, "{error}");
    desk.stop().await;
}
