//! Rights are checked for each effect, so a request cannot get a forbidden effect by a detour.

use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::runs::{MemoryRuns, RunQuery, RunStore};
use hier_core::store::MemoryStore;
use hier_server::auth::{Tokens, User};
use hier_server::{RunRequest, Server};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::graphs::server;
use crate::mail::Shop;
use crate::support::{Desk, Roles, as_user, desk, open, sent_by};

const ALICE: &str = "alice:create,read,update,delete,search,run";

async fn with_roles() -> Desk {
    open(server().auth(Roles)).await
}

async fn thread(desk: &Desk, token: &str) -> String {
    let (status, made) = as_user(desk, token, Method::POST, "/threads", json!({})).await;
    assert_eq!(status, 200, "{made}");
    made["thread_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn supersteps_apply_only_to_a_thread_that_the_request_creates() {
    let desk = with_roles().await;
    let id = thread(&desk, ALICE).await;
    let path = format!("/threads/{id}");
    let slow = json!({ "assistant_id": "slow", "input": { "n": 60.0 } });
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(as_user(&desk, ALICE, Method::POST, &format!("{path}/runs/wait"), run).await.0, 200);
    let (_, before) = as_user(&desk, ALICE, Method::GET, &path, json!({})).await;
    let steps = |values: Value| json!([{ "updates": [{ "values": values, "as_node": "a" }] }]);
    let again = |values: Value| {
        json!({
            "thread_id": id, "if_exists": "do_nothing", "metadata": { "graph_id": "two" }, "supersteps": steps(values),
        })
    };
    for token in [ALICE, "alice:create,read", "alice:create*,read"] {
        for values in [json!({ "nothing": 1 }), json!({ "n": 99.0 })] {
            let (status, answer) = as_user(&desk, token, Method::POST, "/threads", again(values)).await;
            assert_eq!((status, &answer), (200, &before), "{token}");
        }
    }
    let (status, answer) = as_user(&desk, "bob:create*,read", Method::POST, "/threads", again(json!({}))).await;
    assert_eq!(status, 409, "{answer}");
    assert_eq!(as_user(&desk, ALICE, Method::GET, &path, json!({})).await.1, before);
    // Not to one with a live run either, which is not deleted.
    let live = thread(&desk, ALICE).await;
    let (_, begun) = as_user(&desk, ALICE, Method::POST, &format!("/threads/{live}/runs"), slow).await;
    let mut body = again(json!({ "n": 1.0 }));
    body["thread_id"] = json!(live);
    assert_eq!(as_user(&desk, ALICE, Method::POST, "/threads", body).await.0, 200);
    let begun = format!("/threads/{live}/runs/{}", begun["run_id"].as_str().expect("a run"));
    assert_eq!(as_user(&desk, ALICE, Method::GET, &begun, json!({})).await.0, 200);
    // A thread that could not be filled is not there.
    let new = uuid::Uuid::now_v7().to_string();
    let mut body = again(json!({ "nothing": 1 }));
    body["thread_id"] = json!(new);
    assert_eq!(as_user(&desk, ALICE, Method::POST, "/threads", body).await.0, 400);
    assert_eq!(as_user(&desk, ALICE, Method::GET, &format!("/threads/{new}"), json!({})).await.0, 404);
    desk.stop().await;
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Who {
    who: String,
}

graph! {
/// Records the user of the run.
    Ask<Who, String> = Graph { nodes: [note], edges: [START >> note >> END] }
}

async fn note(run: &Run<String>) -> WhoUpdate {
    Who::update().who(run.context().clone())
}

#[tokio::test]
async fn no_configuration_hides_the_user_of_a_run() {
    let who = |run: &RunRequest| run.user.identity.clone();
    let desk = open(Server::new().graph("ask", Ask::compile(), who).auth(Roles)).await;
    let mut refused = 0;
    for configurable in [
        json!("x"),
        json!([1]),
        json!(5),
        json!(true),
        Value::Null,
        json!({}),
        json!({ "a": 1 }),
        json!({ "langgraph_auth_user": { "identity": "bob" } }),
        json!({ "langgraph_auth_user": null, "langgraph_auth_user_id": "bob" }),
    ] {
        let body = json!({ "graph_id": "ask", "config": { "configurable": configurable } });
        let (status, made) = as_user(&desk, ALICE, Method::POST, "/assistants", body.clone()).await;
        if status == 422 {
            assert!(made["detail"].as_str().is_some_and(|text| text.starts_with("`config.configurable`")), "{made}");
            refused += 1;
            continue;
        }
        assert_eq!(status, 200, "{made}");
        for run_config in [Value::Null, json!({}), json!({ "configurable": { "b": 2 } })] {
            let run = json!({ "assistant_id": made["assistant_id"], "input": {}, "config": run_config });
            let (_, ended) = as_user(&desk, ALICE, Method::POST, "/runs/wait", run).await;
            assert_eq!(ended["who"], "alice", "{body} {run_config}");
        }
        let path = format!("/assistants/{}", made["assistant_id"].as_str().expect("an id"));
        let (status, _) =
            as_user(&desk, ALICE, Method::PATCH, &path, json!({ "config": { "configurable": "x" } })).await;
        assert_eq!(status, 422);
    }
    assert_eq!(refused, 4);
    desk.stop().await;
}

#[tokio::test]
async fn context_of_a_run_can_depend_on_the_claims_of_its_user() {
    let tenant = |run: &RunRequest| run.user.claims.get("tenant").map(Value::to_string).unwrap_or_default();
    let user = |tenant: &str| User::new("ann").with_claims(Map::from_iter([("tenant".to_owned(), json!(tenant))]));
    let auth = Tokens::new([("a", user("north")), ("b", user("south"))]);
    let desk = open(Server::new().graph("ask", Ask::compile(), tenant).auth(auth)).await;
    for (token, tenant) in [("a", "\"north\""), ("b", "\"south\"")] {
        let run = json!({ "assistant_id": "ask", "input": {} });
        let (_, ended) = as_user(&desk, token, Method::POST, "/runs/wait", run).await;
        assert_eq!(ended["who"], tenant);
    }
    desk.stop().await;
}

#[tokio::test]
async fn only_the_server_creates_assistants_for_all_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("desk.db").display());
    let bob = "bob:create,read,update,delete,search,run";
    let desk = open(server().database(&*database).auth(Roles)).await;
    let posing = json!({ "graph_id": "two", "metadata": { "created_by": "system" } });
    let (status, refused) = as_user(&desk, bob, Method::POST, "/assistants", posing).await;
    assert_eq!((status, refused["detail"].as_str().map(|text| text.contains("created_by"))), (422, Some(true)));
    // The id of the assistant of a graph that the server may serve later.
    let later = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, b"later");
    assert_ne!(later.to_string(), system("later"));
    let early = json!({ "graph_id": "two", "assistant_id": system("later"), "config": { "tags": ["of bob"] } });
    let (status, made) = as_user(&desk, bob, Method::POST, "/assistants", early).await;
    assert_eq!(status, 200, "{made}");
    let path = format!("/assistants/{}", system("later"));
    let (status, _) =
        as_user(&desk, bob, Method::PATCH, &path, json!({ "metadata": { "created_by": "system" } })).await;
    assert_eq!(status, 422);
    for (method, body) in [(Method::GET, json!({})), (Method::PATCH, json!({ "name": "x" }))] {
        assert_eq!(as_user(&desk, ALICE, method, &path, body).await.0, 404);
    }
    // It cannot be taken from a graph that the server serves either, though an administrator has deleted it.
    let two = format!("/assistants/{}", system("two"));
    assert_eq!(as_user(&desk, bob, Method::DELETE, &two, json!({})).await.0, 403);
    assert_eq!(as_user(&desk, "root:delete*", Method::DELETE, &two, json!({})).await.0, 204);
    let taken = json!({ "graph_id": "two", "assistant_id": system("two") });
    let (status, refused) = as_user(&desk, bob, Method::POST, "/assistants", taken).await;
    assert_eq!((status, refused["detail"].as_str().map(|text| text.contains("`assistant_id`"))), (422, Some(true)));
    desk.stop().await;

    let desk = open(server().graph("later", crate::graphs::Boom::compile(), ()).database(&*database).auth(Roles)).await;
    for token in [ALICE, bob] {
        let (status, found) = as_user(&desk, token, Method::GET, &path, json!({})).await;
        assert_eq!((status, &found["graph_id"], &found["config"]), (200, &json!("later"), &json!({})), "{found}");
        assert_eq!(as_user(&desk, token, Method::DELETE, &path, json!({})).await.0, 403);
        assert_eq!(as_user(&desk, token, Method::GET, &two, json!({})).await.0, 200, "it is made again");
    }
    desk.stop().await;
}

/// The id of the assistant that the server creates for a graph.
fn system(graph: &str) -> String {
    let namespace = uuid::Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);
    uuid::Uuid::new_v5(&namespace, graph.as_bytes()).to_string()
}

#[tokio::test]
async fn disconnect_cancels_only_permitted_runs() {
    let desk = with_roles().await;
    let id = thread(&desk, ALICE).await;
    let slow = json!({ "assistant_id": "slow", "input": { "n": 2.0 } });
    let (_, run) = as_user(&desk, ALICE, Method::POST, &format!("/threads/{id}/runs"), slow).await;
    let path = format!("/threads/{id}/runs/{}", run["run_id"].as_str().expect("a run"));
    for below in ["stream", "join"] {
        let leaving = format!("{path}/{below}?cancel_on_disconnect=true");
        let (status, _) = as_user(&desk, "viewer:read*,search*", Method::GET, &leaving, json!({})).await;
        assert_eq!(status, 403, "{below}");
        let (status, _) = as_user(&desk, "bob:read*,run", Method::GET, &leaving, json!({})).await;
        assert_eq!(status, 404, "{below}");
    }
    drop(sent_by(&desk, "viewer:read*", Method::GET, &format!("{path}/stream"), &json!({})).await);
    let (_, ended) = as_user(&desk, ALICE, Method::GET, &format!("{path}/join"), json!({})).await;
    assert_eq!(ended["log"], json!(["pre", "slept"]), "it was not cancelled");
    desk.stop().await;
}

#[tokio::test]
async fn copy_belongs_to_the_user_that_copies() {
    let desk = with_roles().await;
    let viewer = "viewer:create,read*,search";
    let id = thread(&desk, ALICE).await;
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    as_user(&desk, ALICE, Method::POST, &format!("/threads/{id}/runs/wait"), run).await;
    let (status, copy) = as_user(&desk, viewer, Method::POST, &format!("/threads/{id}/copy"), json!({})).await;
    assert_eq!((status, &copy["metadata"]["owner"], &copy["values"]["n"]), (200, &json!("viewer"), &json!(4.0)));
    let (status, fork) =
        as_user(&desk, viewer, Method::POST, &format!("/studio/api/threads/{id}/fork"), json!({})).await;
    assert_eq!(status, 200, "{fork}");
    let path = format!("/threads/{}", fork["thread_id"].as_str().expect("an id"));
    assert_eq!(as_user(&desk, viewer, Method::GET, &path, json!({})).await.1["metadata"]["owner"], "viewer");
    for (token, count) in [(ALICE, 1), (viewer, 2)] {
        assert_eq!(as_user(&desk, token, Method::POST, "/threads/count", json!({})).await.1, json!(count), "{token}");
    }
    let (status, _) = as_user(&desk, "viewer:read*", Method::POST, &format!("/threads/{id}/copy"), json!({})).await;
    assert_eq!(status, 403);
    desk.stop().await;
}

#[tokio::test]
async fn run_creates_a_thread_only_with_the_right() {
    let desk = with_roles().await;
    let runner = "alice:read,run";
    let new = uuid::Uuid::now_v7();
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 }, "if_not_exists": "create" });
    for path in ["/runs/wait".to_owned(), format!("/threads/{new}/runs/wait")] {
        assert_eq!(as_user(&desk, runner, Method::POST, &path, run.clone()).await.0, 403, "{path}");
    }
    let id = thread(&desk, ALICE).await;
    let (status, _) = as_user(&desk, runner, Method::POST, &format!("/threads/{id}/runs/wait"), run).await;
    assert_eq!(status, 200, "it exists");
    desk.stop().await;
}

#[tokio::test]
async fn user_cannot_block_an_agui_thread_of_another() {
    let desk = with_roles().await;
    let bob = "bob:create,read,update,delete,search,run";
    let input = |thread: &str, run: &str| json!({ "threadId": thread, "runId": run, "messages": [], "tools": [], "context": [], "state": { "n": 1.0 } });
    let ask = async |token: &str, thread: &str, run: &str| {
        as_user(&desk, token, Method::POST, "/agui/two", input(thread, run)).await.0
    };
    assert_eq!(ask(ALICE, "support-1", "r1").await, 200);
    let (_, found) = as_user(&desk, ALICE, Method::POST, "/threads/search", json!({})).await;
    let id = found[0]["thread_id"].as_str().expect("a thread").to_owned();
    assert_eq!(as_user(&desk, ALICE, Method::DELETE, &format!("/threads/{id}"), json!({})).await.0, 204);
    // A user that computes the id cannot create it.
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 }, "if_not_exists": "create" });
    let create = as_user(&desk, bob, Method::POST, "/threads", json!({ "thread_id": id })).await;
    assert!(create.0 == 422 && create.1["detail"].as_str().is_some_and(|text| text.starts_with("`thread_id`")));
    assert_eq!(as_user(&desk, bob, Method::POST, &format!("/threads/{id}/runs/wait"), run.clone()).await.0, 422);
    let start = json!({ "id": 1, "method": "run.start", "params": { "assistant_id": "two", "input": { "n": 1.0 } } });
    let (_, refused) = as_user(&desk, bob, Method::POST, &format!("/threads/{id}/commands"), start).await;
    assert_eq!(refused["type"], "error", "{refused}");
    assert_eq!(ask(bob, &id, "r1").await, 404);
    assert_eq!(ask(ALICE, "support-1", "r2").await, 200);
    // Its own user reaches the thread by its id, by all routes.
    assert_eq!(as_user(&desk, ALICE, Method::POST, &format!("/threads/{id}/runs/wait"), run).await.0, 200);
    assert_eq!(ask(ALICE, &id, "r3").await, 200);
    desk.stop().await;
}

#[tokio::test]
async fn unreadable_host_is_refused() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let desk = desk().await;
    let address = desk.base.strip_prefix("http://").expect("an address").to_owned();
    let ask = async |head: &str| {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.expect("it is sent");
        let mut answer = String::new();
        let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut answer)).await;
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
    };
    for good in [address.as_str(), "localhost:8123", "127.0.0.1", "[::1]:80"] {
        assert_eq!(ask(&format!("GET /info HTTP/1.1\r\nhost: {good}\r\n")).await, 200, "{good}");
    }
    for bad in [
        "a{b.evil.example:18101",
        "a`b.evil.example",
        "a}b.evil.example",
        "a\"b.evil.example",
        "a%22b.evil.example",
        "evil.example",
        "local host",
        "",
        "127.0.0.1.evil.example",
        "\u{e9}vil.example",
    ] {
        let status = ask(&format!("GET /info HTTP/1.1\r\nhost: {bad}\r\n")).await;
        assert!(matches!(status, 400 | 403), "{bad}: {status}");
    }
    let twice = format!("GET /info HTTP/1.1\r\nhost: {address}\r\nhost: evil.example\r\n");
    assert_eq!(ask(&twice).await, 400);
    let whole = format!("GET http://evil.example/info HTTP/1.1\r\nhost: {address}\r\n");
    assert_eq!(ask(&whole).await, 403);
    // A GET that cancels a run is a change, whatever page asks for it.
    let cancels = format!("GET /threads/x/runs/y/stream?cancel_on_disconnect=1 HTTP/1.1\r\nhost: {address}\r\n");
    for page in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n"]
    {
        assert_eq!(ask(&format!("{cancels}{page}")).await, 403, "{page}");
    }
    for name in
        ["cancel%5Fon_disconnect", "%63ancel_on_disconnect", "cancel_on_disconnect%5B%5D", "cancel_on_disconnect[]"]
    {
        let spelled = cancels.replace("cancel_on_disconnect", name);
        assert_eq!(ask(&format!("{spelled}sec-fetch-site: cross-site\r\n")).await, 403, "{name}");
    }
    for page in ["", "sec-fetch-site: same-origin\r\n"] {
        assert_eq!(ask(&format!("{cancels}{page}")).await, 422, "{page}");
    }
    desk.stop().await;
}

/// An access filter narrows a search, and does not replace its criteria.
#[tokio::test]
async fn search_for_resources_of_another_user_finds_nothing() {
    let desk = with_roles().await;
    thread(&desk, ALICE).await;
    let cron = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
    assert_eq!(as_user(&desk, ALICE, Method::POST, "/runs/crons", cron).await.0, 200);
    let assistant = json!({ "graph_id": "two" });
    assert_eq!(as_user(&desk, ALICE, Method::POST, "/assistants", assistant).await.0, 200);
    for path in ["/threads", "/runs/crons", "/assistants"] {
        for (owner, found) in [("alice", 1), ("bob", 0)] {
            let wanted = json!({ "metadata": { "owner": owner } });
            let (_, listed) = as_user(&desk, ALICE, Method::POST, &format!("{path}/search"), wanted.clone()).await;
            let (_, count) = as_user(&desk, ALICE, Method::POST, &format!("{path}/count"), wanted).await;
            assert_eq!((listed.as_array().map(Vec::len), &count), (Some(found), &json!(found)), "{path} of {owner}");
        }
    }
    desk.stop().await;
}

/// A copy has no runs. A signal or a timer continues it with the request of the original's run.
#[tokio::test]
async fn copy_of_a_thread_runs_as_the_user_who_copied_it() {
    const VIEWER: &str = "viewer:read*,create,run";
    let store = MemoryRuns::new();
    let served = server().graph("shop", Shop::compile(), ()).auth(Roles);
    let desk = open(served.storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let id = thread(&desk, ALICE).await;
    let body = json!({ "assistant_id": "shop", "input": { "seconds": 0.0 }, "context": { "shop": 7 } });
    assert_eq!(as_user(&desk, ALICE, Method::POST, &format!("/threads/{id}/runs/wait"), body).await.0, 200);
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for path in [format!("/threads/{id}/copy"), format!("/studio/api/threads/{id}/fork")] {
        let (status, copy) = as_user(&desk, VIEWER, Method::POST, &path, json!({})).await;
        assert_eq!(status, 200, "{path}: {copy}");
        let copy = copy["thread_id"].as_str().expect("an id").to_owned();
        let mut changes = store.driver().notifier().thread(&copy);
        let signal = format!("/threads/{copy}/signals/paid");
        assert_eq!(as_user(&desk, VIEWER, Method::POST, &signal, json!({ "value": "r-17" })).await.0, 200);
        let added = async {
            loop {
                if let Some(run) = store.driver().runs(RunQuery::thread(&*copy)).await.expect("runs").pop() {
                    return run;
                }
                changes.changed().await;
            }
        };
        let run = tokio::time::timeout(Duration::from_mins(1), added).await.expect("the signal continues the copy");
        let user = run.request.config["configurable"]["langgraph_auth_user"].clone();
        found.push(json!([path, user["identity"], user["permissions"][1], run.request.context, run.assistant]));
        expected.push(json!([path, "viewer", "create", { "shop": 7 }, system("shop")]));
    }
    assert_eq!(found, expected);
    desk.stop().await;
}
