//! Values that JSON does not have: in inputs, outputs, states, streams and edits.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hier_agents::prelude::*;
use hier_server::Server;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{open, said};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Map {
    fields: BTreeMap<(i32, i32), String>,
    seats: BTreeMap<u32, String>,
    id: Uuid,
    hosts: Vec<Host>,
    large: u128,
    score: f64,
    scores: Vec<f64>,
    runs: u32,
}

graph! {
/// Extends the map of its payload.
    Fill<Map> = Graph { nodes: [fill], edges: [START >> fill >> END] }
}

async fn fill(map: &Map) -> MapUpdate {
    let mut fields = map.fields.clone();
    fields.insert((map.runs.cast_signed(), -1), "new".to_owned());
    let scores = map.scores.iter().copied().chain([f64::NEG_INFINITY]).collect::<Vec<_>>();
    Map::update().fields(fields).scores(scores).score(f64::NAN).runs(map.runs + 1)
}

#[tokio::test]
async fn values_without_json_survive_the_server() {
    let desk = open(Server::new().graph("fill", Fill::compile(), ())).await;
    let thread = desk.thread().await;
    let input = json!({
        "fields": { "[7,8]": "old" },
        "seats": { "7": "ann" },
        "id": "00000000-0000-0000-0000-000000000007",
        "hosts": ["10.0.0.7", "home"],
        "large": u128::MAX.to_string(),
        "scores": ["NaN", 1.5, "inf"],
    });
    let expected = json!({
        "fields": { "[7,8]": "old", "[0,-1]": "new" },
        "seats": { "7": "ann" },
        "id": "00000000-0000-0000-0000-000000000007",
        "hosts": ["10.0.0.7", "home"],
        "large": u128::MAX.to_string(),
        "score": "NaN",
        "scores": ["NaN", 1.5, "inf", "-inf"],
        "runs": 1,
    });
    let modes = ["values", "updates", "debug"];
    let received = desk.stream(&thread, json!({ "assistant_id": "fill", "input": input, "stream_mode": modes })).await;
    assert_eq!(said(&received, "values").last(), Some(&&expected), "{received:?}");
    assert!(said(&received, "error").is_empty(), "{received:?}");
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"], expected);
    let (_, history) = desk.post(&format!("/threads/{thread}/history"), json!({})).await;
    assert_eq!(history[0]["values"], expected);
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!((&row["values"], &row["status"]), (&expected, &json!("idle")));

    // The whole state as it is shown is an edit that changes nothing.
    let (status, edited) = desk.post(&format!("/threads/{thread}/state"), json!({ "values": expected })).await;
    assert_eq!(status, 200, "{edited}");
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"], expected);

    for (input, field) in [
        (json!({ "fields": { "7": "x" } }), "`input.fields`"),
        (json!({ "seats": { "x": "ann" } }), "`input.seats`"),
        (json!({ "id": "x" }), "`input.id`"),
        (json!({ "large": "-1" }), "`input.large`"),
        (json!({ "score": "much" }), "`input.score`"),
    ] {
        let body = json!({ "assistant_id": "fill", "input": input });
        let (status, error) = desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && detail.contains(field), "{error}");
    }
    desk.stop().await;
}

/// As in LangGraph, a node that reads the state runs on the input, and its writes go to the thread.
#[tokio::test]
async fn input_of_a_goto_is_not_dropped() {
    let desk = open(Server::new().graph("fill", Fill::compile(), ())).await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/runs/wait");
    desk.post(&path, json!({ "assistant_id": "fill", "input": {} })).await;
    let goto = |target: Value| json!({ "assistant_id": "fill", "command": { "goto": target } });
    let (status, error) = desk.post(&path, goto(json!({ "node": "fill", "input": { "rums": 9 } }))).await;
    let detail = error["detail"].as_str().unwrap_or_default();
    assert!(status == 422 && detail.contains("`rums`, which is not a channel"), "{error}");
    let (status, values) = desk.post(&path, goto(json!("fill"))).await;
    assert_eq!((status, &values["runs"]), (200, &json!(2)));
    let input = json!({ "runs": 9, "fields": { "[7,8]": "sent" } });
    let (status, values) = desk.post(&path, goto(json!({ "node": "fill", "input": input }))).await;
    let fields = json!({ "[7,8]": "sent", "[9,-1]": "new" });
    assert_eq!((status, &values["runs"], &values["fields"]), (200, &json!(10), &fields));

    // A command begins no thread anywhere but at START.
    let other = desk.thread().await;
    let body = json!({ "assistant_id": "fill", "command": { "goto": "fill", "update": { "runs": 5 } } });
    let (_, error) = desk.post(&format!("/threads/{other}/runs/wait"), body).await;
    assert!(error.to_string().contains("nothing has run yet"), "{error}");
    desk.stop().await;
}
