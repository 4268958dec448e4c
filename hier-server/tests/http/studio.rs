//! The studio's pages and their requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_core::graph::Graph as _;
use hier_core::runs::{MemoryRuns, NewRun, NewThread, Request, RunStore, ThreadAction};
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_server::auth::{Tokens, User};
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs;
use crate::support::{Desk, Fate, HookedStore, StoreCall, desk, open};

async fn ran(desk: &Desk, graph: &str, input: Value) -> String {
    let thread = desk.thread().await;
    let (status, end) =
        desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": graph, "input": input })).await;
    assert_eq!(status, 200, "{end}");
    thread
}

async fn checkpoints(desk: &Desk, thread: &str, query: &str) -> Vec<Value> {
    let (status, page) = desk.get(&format!("/studio/api/threads/{thread}/checkpoints{query}")).await;
    assert_eq!(status, 200, "{page}");
    page["checkpoints"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn pages_may_load_only_their_own_files() {
    let desk = desk().await;
    let page = desk.client.get(format!("{}/studio", desk.base)).send().await.expect("an answer");
    assert_eq!(page.url().path(), "/studio/");
    let policy = page.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let tag = page.headers()["etag"].clone();
    let html = page.text().await.expect("a page");
    assert!(!html.contains("<script>") && !html.contains("style="), "{html}");
    let again = desk.client.get(format!("{}/studio/", desk.base)).header("if-none-match", tag);
    assert_eq!(again.send().await.expect("an answer").status(), 304);
    for (file, kind) in [("main.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")] {
        let response = desk.client.get(format!("{}/studio/{file}", desk.base)).send().await.expect("an answer");
        assert!(response.headers()["content-type"].to_str().is_ok_and(|found| found.starts_with(kind)), "{file}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
    assert_eq!(desk.get("/studio/../Cargo.toml").await.0, 404);
    assert_eq!(desk.get("/studio/none.js").await.0, 404);
    desk.stop().await;
}

/// No page names another host, or turns text into markup or code.
#[tokio::test]
async fn files_name_no_other_host_and_create_no_markup_from_text() {
    let desk = desk().await;
    let (_, html) = desk.get("/studio/").await;
    let mut names: Vec<String> = vec!["style.css".into(), "main.js".into(), String::new()];
    assert!(html.as_str().is_some_and(|html| html.contains("main.js")));
    let mut at = 0;
    while at < names.len() {
        let text = desk.client.get(format!("{}/studio/{}", desk.base, names[at])).send().await.expect("an answer");
        assert_eq!(text.status(), 200, "{}", names[at]);
        let text = text.text().await.expect("text");
        for word in
            ["https:", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!text.contains(word), "{} has {word}", names[at]);
        }
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains("http:"), "{}", names[at]);
        for import in text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next()) {
            if names.iter().all(|known| known != import) {
                names.push(import.to_owned());
            }
        }
        at += 1;
    }
    assert!(names.len() > 12, "{names:?}");
    desk.stop().await;
}

#[tokio::test]
async fn checkpoints_are_listed_without_values_in_pages() {
    let desk = desk().await;
    let thread = ran(&desk, "two", json!({ "n": 3 })).await;
    let all = checkpoints(&desk, &thread, "").await;
    assert_eq!(all.len(), 4);
    assert_eq!((&all[0]["step"], &all[0]["next"], &all[3]["source"]), (&json!(2), &json!([]), &json!("input")));
    assert_eq!(all[0]["changed"], json!(["n", "log"]));
    assert!(all.iter().all(|one| one.get("values").is_none()));
    let first = checkpoints(&desk, &thread, "?limit=3").await;
    let before = first[2]["id"].as_str().expect("an id");
    let rest = checkpoints(&desk, &thread, &format!("?limit=3&before={before}")).await;
    assert_eq!([first, rest].concat(), all);
    let (_, latest) = desk.get(&format!("/studio/api/threads/{thread}/checkpoints/latest")).await;
    assert_eq!(latest["values"], json!({ "n": 8.0, "log": ["a", "b"] }));
    let (status, gone) = desk.get(&format!("/studio/api/threads/{thread}/checkpoints/{thread}")).await;
    assert_eq!(status, 404, "{gone}");
    desk.stop().await;
}

#[tokio::test]
async fn question_is_shown_with_its_task() {
    let desk = desk().await;
    let thread = ran(&desk, "hitl", json!({ "n": 1 })).await;
    let (_, latest) = desk.get(&format!("/studio/api/threads/{thread}/checkpoints/latest")).await;
    assert_eq!(latest["next"], json!(["ask"]));
    let asked = &latest["tasks"][0];
    assert_eq!((&asked["node"], &asked["done"]), (&json!("ask"), &json!(false)));
    assert_eq!(asked["questions"][0]["value"]["question"], "ok?");
    desk.stop().await;
}

#[tokio::test]
async fn threads_are_found_by_words_of_their_metadata() {
    let desk = desk().await;
    let (_, made) = desk.post("/threads", json!({ "metadata": { "title": "Ann's <b>return</b>" } })).await;
    desk.thread().await;
    let (_, found) = desk.get("/studio/api/threads?q=ann%20RETURN").await;
    assert_eq!((&found["total"], &found["threads"][0]["thread_id"]), (&json!(1), &made["thread_id"]));
    let (_, page) = desk.get("/studio/api/threads?limit=1&offset=1").await;
    assert_eq!((&page["total"], page["threads"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    desk.stop().await;
}

#[tokio::test]
async fn fork_continues_from_an_older_checkpoint() {
    let desk = desk().await;
    let thread = ran(&desk, "two", json!({ "n": 3 })).await;
    let all = checkpoints(&desk, &thread, "").await;
    let body = json!({ "checkpoint": all[1]["id"] });
    let (status, made) = desk.post(&format!("/studio/api/threads/{thread}/fork"), body).await;
    assert_eq!(status, 200, "{made}");
    let copy = made["thread_id"].as_str().expect("an id").to_owned();
    let (_, row) = desk.get(&format!("/threads/{copy}")).await;
    assert_eq!((&row["status"], &row["values"]), (&json!("interrupted"), &json!({ "n": 4.0, "log": ["a"] })));
    let (_, end) =
        desk.post(&format!("/threads/{copy}/runs/wait"), json!({ "assistant_id": "two", "input": null })).await;
    assert_eq!(end, json!({ "n": 8.0, "log": ["a", "b"] }));
    let (status, _) = desk.post(&format!("/studio/api/threads/{thread}/fork"), json!({ "checkpoint": copy })).await;
    assert_eq!(status, 404);
    desk.stop().await;
}

#[tokio::test]
async fn failed_fork_leaves_no_copy() {
    let is_full = Arc::new(AtomicBool::new(false));
    let store = HookedStore::new({
        let is_full = is_full.clone();
        move |call| match call {
            StoreCall::Change(ThreadAction::Commit(..)) if is_full.load(Ordering::Relaxed) => Fate::Refused,
            _ => Fate::Done,
        }
    });
    let desk = open(graphs::server().storage(store, Arc::new(MemoryStore::default()))).await;
    let thread = ran(&desk, "two", json!({ "n": 3 })).await;
    let body = json!({ "checkpoint": checkpoints(&desk, &thread, "").await[1]["id"] });
    is_full.store(true, Ordering::Relaxed);
    let (status, error) = desk.post(&format!("/studio/api/threads/{thread}/fork"), body).await;
    assert_eq!(status, 500, "{error}");
    let (_, page) = desk.get("/studio/api/threads").await;
    assert_eq!(page["total"], 1, "{page}");
    desk.stop().await;
}

#[tokio::test]
async fn thread_of_a_background_subagent_cannot_be_forked() {
    let store = Arc::new(MemoryRuns::new());
    let desk = graphs::server().storage(store.clone(), Arc::new(MemoryStore::default()));
    let desk = open(desk.without_worker()).await;
    let (thread, mut request) = ("t/background/miner-1-0", Request::default());
    request.detached = true;
    let mut new = NewRun::new(thread, "two", request);
    new.new_thread = Some(NewThread::new(thread));
    store.driver().create_run(new).await.expect("it is added");
    let (status, error) = desk.post("/studio/api/threads/t%2Fbackground%2Fminer-1-0/fork", json!({})).await;
    assert_eq!(status, 422, "{error}");
    let detail = error["detail"].as_str().expect("a text");
    assert!(detail.starts_with("thread `t/background/miner-1-0` belongs to a background subagent"), "{detail}");
    assert!(detail.ends_with("fork thread `t` instead"), "{detail}");
    desk.stop().await;
}

#[tokio::test]
async fn pruning_keeps_the_newest_and_deleting_leaves_nothing() {
    let desk = desk().await;
    let thread = ran(&desk, "two", json!({ "n": 3 })).await;
    let (_, pruned) = desk.post(&format!("/studio/api/threads/{thread}/prune"), json!({ "keep": 2 })).await;
    assert_eq!(pruned["pruned"], 2);
    assert_eq!(checkpoints(&desk, &thread, "").await.len(), 2);
    let (_, gone) = desk.post(&format!("/studio/api/threads/{thread}/prune"), json!({ "keep": 0 })).await;
    assert_eq!(gone, json!({ "deleted": true }));
    assert_eq!(desk.get(&format!("/studio/api/threads/{thread}")).await.0, 404);
    desk.stop().await;
}

#[tokio::test]
async fn data_needs_a_token_and_belongs_to_its_user() {
    let auth = Tokens::new([("a".to_owned(), User::new("ann")), ("b".to_owned(), User::new("bob"))]);
    let desk = open(graphs::server().auth(auth)).await;
    assert_eq!(desk.get("/studio/").await.0, 200);
    assert_eq!(desk.get("/studio/main.js").await.0, 200);
    for path in ["about", "threads", "graphs/two", "graphs/two/svg"] {
        assert_eq!(desk.get(&format!("/studio/api/{path}")).await.0, 401, "{path}");
    }
    let asked = |method: Method, path: &str, token: &str| {
        desk.client.request(method, format!("{}{path}", desk.base)).bearer_auth(token).json(&json!({}))
    };
    let made: Value = asked(Method::POST, "/threads", "a").send().await.expect("an answer").json().await.expect("JSON");
    let thread = made["thread_id"].as_str().expect("an id");
    let list = asked(Method::GET, "/studio/api/threads", "b").send().await.expect("an answer");
    assert_eq!(list.json::<Value>().await.expect("JSON")["total"], 0);
    for (method, path) in [(Method::GET, ""), (Method::GET, "/checkpoints"), (Method::GET, "/events")] {
        let path = format!("/studio/api/threads/{thread}{path}");
        assert_eq!(asked(method.clone(), &path, "b").send().await.expect("an answer").status(), 404, "{path}");
        assert_eq!(asked(method, &path, "a").send().await.expect("an answer").status(), 200, "{path}");
    }
    let prune = format!("/studio/api/threads/{thread}/prune");
    let prune = asked(Method::POST, &prune, "b").json(&json!({ "keep": 0 })).send().await.expect("an answer");
    assert_eq!(prune.status(), 404);
    desk.stop().await;
}

#[tokio::test]
async fn names_are_escaped_in_drawings_and_subgraphs_open_by_their_paths() {
    let server = graphs::server().graph("say \"hi\" <b>&", graphs::Two::compile(), ());
    let desk = open(server).await;
    let (_, closed) = desk.get("/studio/api/graphs/sub/svg").await;
    let closed = closed.as_str().expect("a drawing").to_owned();
    assert!(closed.contains("class=\"node closed\" data-path=\"[&quot;child&quot;]\""), "{closed}");
    assert!(!closed.contains("in1"));
    let (_, opened) = desk.get("/studio/api/graphs/sub/svg?open=%5B%5B%22child%22%5D%5D").await;
    assert!(opened.as_str().is_some_and(|svg| svg.contains("[&quot;child&quot;,&quot;in1&quot;]")), "{opened}");
    let path = "say%20%22hi%22%20%3Cb%3E%26";
    let (status, received) = desk.get(&format!("/studio/api/graphs/{path}")).await;
    assert_eq!((status, &received["nodes"]), (200, &json!(["a", "b"])));
    assert_eq!(desk.get("/studio/api/graphs/sub/svg?open=child").await.0, 422);
    assert_eq!(desk.get("/studio/api/graphs/none/svg").await.0, 404);
    desk.stop().await;
}

/// The log continues after the last seen number, and omits large values.
#[tokio::test]
async fn events_continue_after_the_last_one_read() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "stream_mode": ["tasks"] });
    desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
    let path = format!("{}/studio/api/threads/{thread}/events", desk.base);
    let (_, row) = desk.get(&format!("/studio/api/threads/{thread}")).await;
    let last = row["last_event"].as_u64().expect("a number");
    for after in [0, 2] {
        let mut response =
            desk.client.get(&path).header("last-event-id", after.to_string()).send().await.expect("a stream");
        let received = desk
            .until(&mut response, &mut String::new(), |received| {
                received.last().is_some_and(|received| received.data["mode"] == "end")
            })
            .await;
        let numbers: Vec<u64> = received.iter().filter_map(|received| received.data["n"].as_u64()).collect();
        assert_eq!(numbers, ((after + 1)..=last).collect::<Vec<_>>());
        assert!(received.iter().all(|received| received.data["data"].get("input").is_none()), "{received:?}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn studio_alone_reads_a_database_and_serves_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("desk.db").display());
    let desk = open(graphs::server().database(&url)).await;
    let thread = ran(&desk, "two", json!({ "n": 3 })).await;
    desk.stop().await;

    let alone = open(Server::new().database(&url).only_studio()).await;
    let (_, about) = alone.get("/studio/api/about").await;
    assert_eq!((&about["program"], &about["graphs"]), (&json!(false), &json!([])));
    let (_, latest) = alone.get(&format!("/studio/api/threads/{thread}/checkpoints/latest")).await;
    assert_eq!(latest["values"], json!({ "n": 8.0, "log": ["a", "b"] }));
    let (status, copy) = alone.post(&format!("/studio/api/threads/{thread}/fork"), json!({})).await;
    assert_eq!(status, 200, "{copy}");
    assert_eq!(alone.get("/studio/api/threads").await.1["total"], 2);
    let (status, _) = alone.post("/runs/wait", json!({ "assistant_id": "two", "input": {} })).await;
    assert_eq!(status, 404);
    alone.stop().await;
}

#[tokio::test]
async fn studio_can_be_disabled() {
    let desk = open(graphs::server().without_studio()).await;
    assert_eq!(desk.get("/studio/").await.0, 404);
    assert_eq!(desk.get("/studio/api/about").await.0, 404);
    desk.stop().await;
}
