//! Every route with the rights that it needs, and its response to other users. A described route without a row here fails.
//!
//! Each row is asked for by its user with all rights, by roles that lack one of those it needs, and by another user who had a thread
//! with the same id, deleted it, and still has its streams, its runs and its checkpoints.

use reqwest::{Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::graphs::server;
use crate::support::{Desk, Roles, as_user, open, sent_by};

const RIGHTS: [&str; 6] = ["create", "read", "update", "delete", "search", "run"];
const READS: [&str; 2] = ["read", "search"];
const ALICE: &str = "alice:create,read,update,delete,search,run";
const BOB: &str = "bob:create,read,update,delete,search,run";
/// Stands in what belongs to Alice.
const SECRET: &str = "4815162342";

/// The response to another user who has all rights to their own resources.
#[derive(Clone, Copy, PartialEq)]
enum Foreign {
    /// 404.
    Absent,
    /// 403.
    Forbidden,
    /// Its own part, without what is Alice's.
    Own,
    /// An error within an answer with the status 200.
    Error,
    /// A stream that says nothing.
    Silent,
}

use Foreign::{Absent, Error, Forbidden, Own, Silent};

/// Method, path, the rights that are needed, what another user is answered, and the body.
type Row = (&'static str, &'static str, &'static [&'static str], Foreign, &'static str);

const RUN: &str = r#"{"assistant_id":"two","input":{"n":1}}"#;
const CRON: &str = r#"{"assistant_id":"two","schedule":"0 0 1 1 *","input":{"n":1}}"#;
const NAMED: &str = r#"{"namespace":["alice","notes"],"key":"k"}"#;

const TABLE: &[Row] = &[
    ("get", "/ok", &[], Own, ""),
    ("get", "/info", &[], Own, ""),
    ("get", "/metrics", &[], Own, ""),
    ("get", "/openapi.json", &[], Own, ""),
    ("get", "/docs", &[], Own, ""),
    ("post", "/assistants", &["create"], Own, r#"{"graph_id":"two"}"#),
    ("post", "/assistants/search", &["search"], Own, "{}"),
    ("post", "/assistants/count", &["search"], Own, "{}"),
    ("get", "/assistants/{assistant_id}", &["read"], Absent, ""),
    ("patch", "/assistants/{assistant_id}", &["update"], Absent, r#"{"name":"x"}"#),
    ("delete", "/assistants/{assistant_id}", &["delete"], Absent, ""),
    ("get", "/assistants/{assistant}/graph", &["read"], Absent, ""),
    ("get", "/assistants/{assistant_id}/schemas", &["read"], Absent, ""),
    ("get", "/assistants/{assistant_id}/subgraphs", &["read"], Absent, ""),
    ("get", "/assistants/{assistant_id}/subgraphs/{namespace}", &["read"], Absent, ""),
    ("post", "/assistants/{assistant_id}/versions", &["read"], Absent, "{}"),
    ("post", "/assistants/{assistant_id}/latest", &["update"], Absent, r#"{"version":1}"#),
    ("post", "/threads", &["create"], Own, "{}"),
    ("post", "/threads/search", &["search"], Own, "{}"),
    ("post", "/threads/count", &["search"], Own, "{}"),
    ("post", "/threads/prune", &["delete"], Own, r#"{"thread_ids":["$thread"]}"#),
    ("get", "/threads/{thread_id}", &["read"], Absent, ""),
    ("patch", "/threads/{thread_id}", &["update"], Absent, r#"{"metadata":{"a":1}}"#),
    ("delete", "/threads/{thread_id}", &["delete"], Absent, ""),
    ("post", "/threads/{thread_id}/copy", &["read", "create"], Absent, "{}"),
    ("get", "/threads/{thread_id}/storage", &["read"], Absent, ""),
    ("get", "/threads/{thread_id}/state", &["read"], Absent, ""),
    ("post", "/threads/{thread_id}/state", &["update"], Absent, r#"{"values":{"n":5},"as_node":"a"}"#),
    (
        "post",
        "/threads/{thread_id}/state/checkpoint",
        &["read"],
        Absent,
        r#"{"checkpoint":{"checkpoint_id":"$checkpoint"}}"#,
    ),
    ("get", "/threads/{thread_id}/state/{checkpoint_id}", &["read"], Absent, ""),
    ("get", "/threads/{thread_id}/history", &["read"], Absent, ""),
    ("post", "/threads/{thread_id}/history", &["read"], Absent, "{}"),
    ("post", "/threads/{thread_id}/signals/{name}", &["run"], Absent, r#"{"value":1}"#),
    ("get", "/threads/{thread_id}/mail", &["read"], Absent, ""),
    ("delete", "/threads/{thread_id}/mail/{letter_id}", &["update"], Absent, ""),
    ("get", "/threads/{thread_id}/stream", &["read"], Absent, ""),
    ("post", "/threads/{thread_id}/commands", &["read"], Error, r#"{"id":1,"method":"state.get","params":{}}"#),
    ("post", "/threads/{thread_id}/stream/events", &["read"], Silent, r#"{"channels":["values"]}"#),
    ("get", "/threads/{thread_id}/runs", &["read"], Absent, ""),
    ("post", "/threads/{thread_id}/runs", &["read", "run"], Absent, RUN),
    ("post", "/threads/{thread_id}/runs/stream", &["read", "run"], Absent, RUN),
    ("post", "/threads/{thread_id}/runs/wait", &["read", "run"], Absent, RUN),
    ("get", "/threads/{thread_id}/runs/{run_id}", &["read"], Absent, ""),
    ("delete", "/threads/{thread_id}/runs/{run_id}", &["run"], Absent, ""),
    ("get", "/threads/{thread_id}/runs/{run_id}/join", &["read"], Absent, ""),
    ("get", "/threads/{thread_id}/runs/{run_id}/stream", &["read"], Absent, ""),
    ("post", "/threads/{thread_id}/runs/{live_id}/cancel", &["run"], Absent, "{}"),
    ("post", "/runs", &["read", "run", "create"], Own, RUN),
    ("post", "/runs/stream", &["read", "run", "create"], Own, RUN),
    ("get", "/runs/{run_id}/stream", &["read"], Absent, ""),
    ("post", "/runs/wait", &["read", "run", "create"], Own, RUN),
    ("post", "/runs/batch", &["read", "run", "create"], Own, r#"[{"assistant_id":"two","input":{"n":1}}]"#),
    ("post", "/runs/cancel", &["run"], Absent, r#"{"thread_id":"$thread","run_ids":["$live"]}"#),
    (
        "post",
        "/agui/{graph}",
        &["read", "run", "create"],
        Own,
        r#"{"threadId":"x","runId":"$new","messages":[],"tools":[],"context":[],"state":{"n":1}}"#,
    ),
    ("post", "/runs/crons", &["read", "run", "create"], Own, CRON),
    ("post", "/threads/{thread_id}/runs/crons", &["read", "run", "create"], Absent, CRON),
    ("post", "/runs/crons/search", &["search"], Own, "{}"),
    ("post", "/runs/crons/count", &["search"], Own, "{}"),
    ("get", "/runs/crons/{cron_id}", &["read"], Absent, ""),
    ("patch", "/runs/crons/{cron_id}", &["read", "update", "run", "create"], Absent, r#"{"schedule":"0 0 2 1 *"}"#),
    ("delete", "/runs/crons/{cron_id}", &["delete"], Absent, ""),
    ("put", "/store/items", &["update"], Forbidden, r#"{"namespace":["alice","notes"],"key":"new","value":{}}"#),
    ("get", "/store/items?namespace=alice.notes&key=k", &["read"], Forbidden, ""),
    ("delete", "/store/items", &["delete"], Forbidden, NAMED),
    ("post", "/store/items/search", &["search"], Forbidden, r#"{"namespace_prefix":["alice"]}"#),
    ("post", "/store/namespaces", &["search"], Forbidden, r#"{"prefix":["alice"]}"#),
    // Each command of a connection is asked for as one that is posted.
    ("get", "/threads/{thread_id}/stream/events", &[], Silent, ""),
    ("get", "/studio/api/threads", &["search"], Own, ""),
    ("get", "/studio/api/threads/{thread_id}", &["read"], Absent, ""),
    ("get", "/studio/api/threads/{thread_id}/events", &["read"], Absent, ""),
    ("get", "/studio/api/threads/{thread_id}/checkpoints", &["read"], Absent, ""),
    ("get", "/studio/api/threads/{thread_id}/checkpoints/{checkpoint_id}", &["read"], Absent, ""),
    ("post", "/studio/api/threads/{thread_id}/fork", &["read", "create"], Absent, "{}"),
    ("post", "/studio/api/threads/{thread_id}/prune", &["delete"], Absent, r#"{"keep":1}"#),
];

/// Alice's resources, and Bob's memory of a thread with the same id.
struct Fixture {
    thread: String,
    run: String,
    /// A run of Alice's thread that waits for its time.
    live: String,
    /// A run of Bob's, which is gone.
    gone: String,
    checkpoint: String,
    assistant: String,
    cron: String,
    letter: String,
    /// Bob's, of his thread.
    streams: Vec<(&'static str, Response)>,
}

async fn done(desk: &Desk, token: &str, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = as_user(desk, token, method.clone(), path, body).await;
    assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    answer
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text")).to_owned()
}

impl Fixture {
    /// A thread with a run that waits is busy, so that only some have one.
    async fn new(desk: &Desk, is_busy: bool) -> Self {
        let thread = Uuid::now_v7().to_string();
        let (path, run) = (format!("/threads/{thread}"), json!({ "assistant_id": "two", "input": { "n": 1 } }));
        let post = async |token: &str, path: &str, body: Value| done(desk, token, Method::POST, path, body).await;
        post(BOB, "/threads", json!({ "thread_id": thread })).await;
        post(BOB, &format!("{path}/runs/wait"), run).await;
        let runs = done(desk, BOB, Method::GET, &format!("{path}/runs"), json!({})).await;
        let mut streams = Vec::new();
        for (name, method, below) in [
            ("events", Method::POST, format!("{path}/stream/events")),
            ("stream", Method::GET, format!("{path}/stream")),
            ("studio", Method::GET, format!("/studio/api{path}/events")),
        ] {
            let body = json!({ "channels": ["values", "updates", "tasks", "lifecycle"], "since": 0 });
            streams.push((name, sent_by(desk, BOB, method, &below, &body).await));
        }
        done(desk, BOB, Method::DELETE, &path, json!({})).await;

        post(ALICE, "/threads", json!({ "thread_id": thread, "metadata": { "note": SECRET } })).await;
        let secret: f64 = SECRET.parse().expect("a number");
        let run = json!({ "assistant_id": "two", "input": { "n": secret } });
        post(ALICE, &format!("{path}/runs/wait"), run.clone()).await;
        let own = done(desk, ALICE, Method::GET, &format!("{path}/runs"), json!({})).await;
        let state = done(desk, ALICE, Method::GET, &format!("{path}/state"), json!({})).await;
        let mut live = own[0].clone();
        if is_busy {
            let mut later = run.clone();
            later["after_seconds"] = json!(100_000);
            live = post(ALICE, &format!("{path}/runs"), later).await;
        }
        let letter = post(ALICE, &format!("{path}/signals/go"), json!({ "value": SECRET })).await;
        let assistant = json!({ "graph_id": "sub", "name": SECRET, "config": { "configurable": { "note": SECRET } } });
        let assistant = post(ALICE, "/assistants", assistant).await;
        let cron = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": secret } });
        let cron = post(ALICE, "/runs/crons", cron).await;
        let item = json!({ "namespace": ["alice", "notes"], "key": "k", "value": { "note": SECRET } });
        done(desk, ALICE, Method::PUT, "/store/items", item).await;
        Self {
            thread,
            run: text(&own[0]["run_id"]),
            live: text(&live["run_id"]),
            gone: text(&runs[0]["run_id"]),
            checkpoint: text(&state["checkpoint"]["checkpoint_id"]),
            assistant: text(&assistant["assistant_id"]),
            cron: text(&cron["cron_id"]),
            letter: text(&letter["signal_id"]),
            streams,
        }
    }

    /// A path or a body with what stands for its parts.
    fn filled(&self, template: &str) -> String {
        let new = Uuid::now_v7().to_string();
        let parts = [
            ("thread", &self.thread),
            ("run", &self.run),
            ("live", &self.live),
            ("assistant", &self.assistant),
            ("cron", &self.cron),
            ("checkpoint", &self.checkpoint),
            ("letter", &self.letter),
            ("new", &new),
        ];
        let filled = parts.iter().fold(template.to_owned(), |text, (name, id)| {
            text.replace(&format!("{{{name}_id}}"), id)
                .replace(&format!("{{{name}}}"), id)
                .replace(&format!("${name}"), id)
        });
        filled.replace("{name}", "go").replace("{namespace}", "child").replace("{graph}", "two")
    }

    /// Returns all of Alice's resources.
    async fn snapshot(&self, desk: &Desk) -> Vec<Value> {
        let mut found = Vec::new();
        for path in [
            "/threads/{thread_id}",
            "/threads/{thread_id}/state",
            "/threads/{thread_id}/history?limit=100",
            "/threads/{thread_id}/runs?limit=100",
            "/threads/{thread_id}/mail",
            "/assistants/{assistant_id}",
            "/runs/crons/{cron_id}",
            "/store/items?namespace=alice.notes&key=k",
        ] {
            found.push(done(desk, ALICE, Method::GET, &self.filled(path), json!({})).await);
        }
        for path in ["/threads/count", "/assistants/count", "/runs/crons/count"] {
            found.push(done(desk, ALICE, Method::POST, path, json!({})).await);
        }
        found
    }
}

/// The status of an answer, and its body if it is not a stream.
async fn asked(desk: &Desk, token: &str, row: &Row, fixture: &Fixture) -> (u16, String) {
    let (method, path, _, _, body) = row;
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
    let body: Value = if body.is_empty() {
        json!({})
    } else {
        serde_json::from_str(&fixture.filled(body)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let response = sent_by(desk, token, method, &fixture.filled(path), &body).await;
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let ends = !kind.starts_with("text/event-stream") || path.ends_with("/runs/stream") || path.starts_with("/agui");
    (status, if ends { response.text().await.expect("a body") } else { String::new() })
}

fn all_but(rights: &[&str]) -> String {
    let rest = RIGHTS.iter().filter(|right| !rights.contains(right)).copied();
    format!("alice:-,{}", rest.collect::<Vec<_>>().join(","))
}

/// Returns true if a response refuses a known user who lacks the right.
fn is_forbidden(row: &Row, (status, body): &(u16, String)) -> bool {
    if row.3 == Error { *status == 200 && body.contains("\"error\"") && body.contains("403") } else { *status == 403 }
}

#[tokio::test]
async fn routes_have_only_the_effects_that_their_user_may_have() {
    let desk = open(server().auth(Roles)).await;
    for row in TABLE {
        let (method, path, needs, foreign, body) = row;
        let (mut fixture, what) =
            (Fixture::new(&desk, format!("{path}{body}").contains("live")).await, format!("{method} {path}"));
        let before = fixture.snapshot(&desk).await;
        // Roles: each that lacks a right, none at all, and one that only reads.
        let mut roles: Vec<String> = needs.iter().map(|right| all_but(&[right])).collect();
        roles.push("alice:-".to_owned());
        if needs.iter().any(|right| !READS.contains(right)) {
            roles.push(format!("alice:{}", READS.join(",")));
        }
        for role in roles.iter().filter(|_| !needs.is_empty()) {
            let answer = asked(&desk, role, row, &fixture).await;
            assert!(is_forbidden(row, &answer), "{what} for {role}: {answer:?}");
        }
        // Another user, by the id of a thread that was its own, and with what it remembers of that.
        let gone = std::mem::take(&mut fixture.gone);
        for run in [fixture.run.clone(), gone] {
            let alices = std::mem::replace(&mut fixture.run, run);
            let (status, body) = asked(&desk, BOB, row, &fixture).await;
            fixture.run = alices;
            let is_as_wanted = match foreign {
                Absent => status == 404,
                Forbidden => status == 403,
                Own => (200..300).contains(&status),
                Error => status == 200 && body.contains("\"error\"") && body.contains("404"),
                Silent => body.is_empty() || status >= 400,
            };
            assert!(is_as_wanted, "{what} for bob: {status} {body}");
            assert!(!body.contains(SECRET), "{what} for bob: {body}");
        }
        for (name, stream) in std::mem::take(&mut fixture.streams) {
            let received = stream.text().await.unwrap_or_else(|error| panic!("{what}: `{name}` ends: {error}"));
            assert!(!received.contains(SECRET), "{what}: `{name}`: {received}");
        }
        assert_eq!(fixture.snapshot(&desk).await, before, "{what}: others change nothing");
        // Its user, with the rights that are needed and no others.
        let own = format!("alice:{}", needs.join(","));
        let (status, body) = asked(&desk, &own, row, &fixture).await;
        let is_socket = *foreign == Silent && needs.is_empty();
        assert!((200..300).contains(&status) || is_socket, "{what} for {own}: {status} {body}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn every_described_route_has_a_row() {
    let desk = open(server()).await;
    let (_, described) = desk.get("/openapi.json").await;
    let plain = |path: &str| path.split('?').next().unwrap_or_default().replace("{live_id}", "{run_id}");
    let mut missing = Vec::new();
    for (path, operations) in described["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            if !TABLE.iter().any(|row| row.0 == method && plain(row.1) == *path) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "say here which rights they need, and what they do for others");
    desk.stop().await;
}
