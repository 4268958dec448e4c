//! Crons: made, found, changed, fired, deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_core::runs::{Crons, MemoryRuns, NewCron, RunQuery, RunStatus, RunStore};
use hier_core::store::MemoryStore;
use hier_server::auth::{Tokens, User};
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, Fate, HookedStore, Roles, StoreCall, as_user, desk, open};

/// The fields of a cron in LangGraph's order.
const FIELDS: [&str; 14] = [
    "assistant_id",
    "created_at",
    "cron_id",
    "enabled",
    "end_time",
    "metadata",
    "next_run_date",
    "on_run_completed",
    "payload",
    "schedule",
    "thread_id",
    "timezone",
    "updated_at",
    "user_id",
];

#[tokio::test]
async fn cron_is_created_found_changed_and_deleted() {
    let desk = desk().await;
    let body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
    let (status, cron) = desk.post("/runs/crons", body).await;
    assert_eq!(status, 200, "{cron}");
    let mut fields: Vec<&str> = cron.as_object().expect("a cron").keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, FIELDS);
    let id = cron["cron_id"].as_str().expect("an id").to_owned();
    let assistant = "4499204c-8eda-5495-a842-3696dc7527c7";
    assert_eq!(cron["assistant_id"], assistant);
    assert_eq!(
        cron["payload"],
        json!({
            "assistant_id": assistant, "schedule": "0 0 1 1 *", "input": { "n": 1 },
            "config": { "configurable": { "cron_id": id } },
        })
    );
    assert!(cron["next_run_date"].as_str().expect("a time").ends_with("-01-01T00:00:00+00:00"), "{cron}");
    for (field, value) in [
        ("thread_id", Value::Null),
        ("end_time", Value::Null),
        ("timezone", Value::Null),
        ("user_id", "".into()),
        ("on_run_completed", "delete".into()),
        ("enabled", true.into()),
        ("metadata", json!({})),
    ] {
        assert_eq!(cron[field], value, "{field}");
    }
    let response = desk.send(Method::POST, "/runs/crons/search", &json!({ "limit": 5 })).await;
    assert_eq!(response.headers()["x-pagination-total"], "1");
    assert_eq!(response.json::<Value>().await.expect("a list"), json!([cron]));
    assert_eq!(desk.post("/runs/crons/search", json!({ "assistant_id": "hitl" })).await.1, json!([]));
    assert_eq!(desk.post("/runs/crons/count", json!({})).await.1, json!(1));
    let path = format!("/runs/crons/{id}");
    assert_eq!(desk.get(&path).await, (200, cron.clone()));
    let (status, changed) = desk.ask(Method::PATCH, &path, json!({ "enabled": false })).await;
    assert_eq!((status, &changed["enabled"], &changed["payload"]["enabled"]), (200, &json!(false), &json!(false)));
    assert_eq!(changed["next_run_date"], cron["next_run_date"]);
    let daily = json!({ "schedule": "30 9 * * *", "timezone": "Europe/Berlin", "enabled": true });
    let (_, changed) = desk.ask(Method::PATCH, &path, daily).await;
    assert_eq!(changed["timezone"], "Europe/Berlin");
    let next = changed["next_run_date"].as_str().expect("a time");
    assert!(next.contains("T08:30:00") || next.contains("T07:30:00"), "{next}");
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 404);
    assert_eq!(desk.get(&path).await.0, 404);
    desk.stop().await;
}

#[tokio::test]
async fn errors_of_crons_name_the_field() {
    let desk = desk().await;
    let with = |field: &str, value: Value| {
        let mut body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
        body[field] = value;
        body
    };
    for (body, says) in [
        (
            with("schedule", "zzz".into()),
            "Invalid cron schedule: 'zzz'. Reason: Invalid cron schedule. Ensure the schedule uses the standard cron format (minute \
             hour day_of_month month day_of_week). Example: '*/5 * * * *' for every 5 minutes.",
        ),
        (with("schedule", Value::Null), "`schedule` is missing"),
        (with("timezone", "Mars".into()), "`timezone`: `Mars`"),
        (with("end_time", "never".into()), "`end_time`: `never`"),
        (with("input", json!({ "zzz": 1 })), "`zzz`"),
        (with("webhook", "http://127.0.0.1/".into()), "`webhook`"),
        (with("assistant_id", Value::Null), "`assistant_id` is missing"),
        (with("schedule", "0 0 30 2 *".into()), "`schedule`: `0 0 30 2 *` is never due: change it"),
        (with("end_time", "2020-01-01T00:00:00".into()), "`schedule`: `0 0 1 1 *` is never due before `end_time`"),
        (with("multitask_strategy", "inject".into()), "`multitask_strategy`: a cron cannot `inject`: use `enqueue`"),
    ] {
        let (status, error) = desk.post("/runs/crons", body).await;
        assert!(
            status == 422 && error["detail"].as_str().unwrap_or_default().contains(says),
            "{says}: {status} {error}"
        );
    }
    let nowhere = "/threads/01a1ffc6-2dbe-7557-b3d9-35769b960c3e/runs/crons";
    assert_eq!(desk.post(nowhere, with("input", json!({ "n": 1 }))).await.0, 404);
    desk.stop().await;
}

/// Makes the crons due now, as if their time had come.
pub(crate) async fn hurry(store: &dyn RunStore) {
    let crons = Crons::of(store);
    for mut cron in crons.search(&hier_core::runs::CronQuery::default()).await.expect("crons") {
        cron.next = Some(SystemTime::now());
        assert!(crons.replace(&cron).await.expect("a change"));
    }
}

pub(crate) async fn ended(store: &MemoryRuns, count: usize) -> Vec<hier_core::runs::Run> {
    let wait = async {
        loop {
            let mut query = RunQuery::default();
            query.status = vec![RunStatus::Success];
            let runs = store.driver().runs(query).await.expect("runs");
            if runs.len() >= count {
                return runs;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.expect("the runs of the cron")
}

#[tokio::test]
async fn cron_is_fired_once_by_several_servers() {
    let store = MemoryRuns::new();
    let memory = std::sync::Arc::new(MemoryStore::default());
    let start = async || open(server().storage(std::sync::Arc::new(store.clone()), memory.clone())).await;
    let (one, two, three) = (start().await, start().await, start().await);
    let thread = one.thread().await;
    let body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 }, "metadata": { "k": 1 } });
    assert_eq!(one.post(&format!("/threads/{thread}/runs/crons"), body.clone()).await.0, 200);
    assert_eq!(two.post("/runs/crons", body).await.0, 200);
    hurry(&store).await;
    let runs = ended(&store, 2).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(store.driver().runs(RunQuery::default()).await.expect("runs").len(), 2, "each is fired once");
    assert!(runs.iter().all(|run| run.metadata["k"] == 1 && run.metadata.contains_key("cron_id")), "{runs:?}");
    let (_, state) = three.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"], json!({ "n": 4.0, "log": ["a", "b"] }));
    for desk in [one, two, three] {
        desk.stop().await;
    }
}

/// A schedule that is not due during a test.
const YEARLY: &str = "0 0 1 1 *";

#[tokio::test]
async fn user_has_a_limited_number_of_crons() {
    let store = MemoryRuns::new();
    let tokens = Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]);
    let served = server().auth(tokens).rate_limit(100_000);
    let served = served.storage(std::sync::Arc::new(store.clone()), std::sync::Arc::new(MemoryStore::default()));
    let desk: Desk = open(served.without_worker()).await;
    let body = json!({ "assistant_id": "two", "schedule": YEARLY, "input": { "n": 1 } });
    let ask = async |token, method, path: &str| as_user(&desk, token, method, path, body.clone()).await;
    let (_, first) = ask("token-of-alice", Method::POST, "/runs/crons").await;
    let first = first["cron_id"].as_str().expect("an id").to_owned();
    // As requests would add them.
    let crons = Crons::of(&store);
    let cron = crons.get(&first).await.expect("the store").expect("the cron");
    for number in 1..1_000 {
        let mut new = NewCron::new("", "", "", None, cron.request.clone());
        new.cron = cron.clone();
        new.cron.id = uuid::Uuid::from_u128(number).to_string();
        crons.create(new).await.expect("a cron");
    }
    for path in ["/runs/crons".to_owned(), {
        let (_, thread) = as_user(&desk, "token-of-alice", Method::POST, "/threads", json!({})).await;
        format!("/threads/{}/runs/crons", thread["thread_id"].as_str().expect("an id"))
    }] {
        let (status, refused) = ask("token-of-alice", Method::POST, &path).await;
        assert_eq!((status, &refused["detail"]), (409, &json!(TOO_MANY)), "{path}");
    }
    assert_eq!(ask("token-of-bob", Method::POST, "/runs/crons").await.0, 200, "another user has as many");
    assert_eq!(ask("token-of-alice", Method::PATCH, &format!("/runs/crons/{first}")).await.0, 200);
    assert_eq!(ask("token-of-alice", Method::DELETE, &format!("/runs/crons/{first}")).await.0, 204);
    assert_eq!(ask("token-of-alice", Method::POST, "/runs/crons").await.0, 200);
    desk.stop().await;
}

const TOO_MANY: &str = "this user has 1000 crons, which is the limit: delete some";

#[tokio::test]
async fn size_of_a_cron_is_limited() {
    let desk = desk().await;
    let with = |bytes: usize| {
        let body = |log: String| json!({ "assistant_id": "two", "schedule": YEARLY, "input": { "log": [log] } });
        let rest = body(String::new()).to_string().len();
        body("x".repeat(bytes - rest))
    };
    let (status, cron) = desk.post("/runs/crons", with(1 << 20)).await;
    assert_eq!(status, 200, "{cron}");
    let text =
        |bytes: usize| format!("the cron takes {bytes} bytes of JSON, more than the limit of 1048576: send less input");
    let (status, refused) = desk.post("/runs/crons", with((1 << 20) + 1)).await;
    assert_eq!((status, &refused["detail"]), (422, &json!(text((1 << 20) + 1))));
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"));
    // A change is measured with the rest of the cron.
    let (status, refused) = desk.ask(Method::PATCH, &path, json!({ "metadata": { "k": "v" } })).await;
    assert_eq!(status, 422);
    assert!(
        refused["detail"].as_str().is_some_and(|text| text.contains("more than the limit of 1048576")),
        "{refused}"
    );
    assert_eq!(desk.get(&path).await, (200, cron));
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    desk.stop().await;
}

/// A thread is deleted, and another user creates one with its id: the cron is disabled, and cannot be enabled again.
#[tokio::test]
async fn cron_of_a_deleted_thread_is_disabled_and_cannot_reach_a_later_one() {
    let store = MemoryRuns::new();
    let tokens = Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]);
    let served = server().auth(tokens);
    let served = served.storage(std::sync::Arc::new(store.clone()), std::sync::Arc::new(MemoryStore::default()));
    let desk: Desk = open(served).await;
    let thread = uuid::Uuid::now_v7().to_string();
    let make = json!({ "thread_id": thread });
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, "/threads", make.clone()).await.0, 200);
    let cron = json!({ "assistant_id": "two", "schedule": YEARLY, "input": { "n": 1 } });
    let (status, cron) =
        as_user(&desk, "token-of-bob", Method::POST, &format!("/threads/{thread}/runs/crons"), cron).await;
    assert_eq!(status, 200, "{cron}");
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"));
    let change = json!({ "schedule": "* * * * *", "enabled": true });
    let of_bob = async |method, body| as_user(&desk, "token-of-bob", method, &path, body).await;

    assert_eq!(as_user(&desk, "token-of-bob", Method::DELETE, &format!("/threads/{thread}"), json!({})).await.0, 204);
    assert_eq!(of_bob(Method::PATCH, change.clone()).await.0, 404, "the thread is gone");
    assert_eq!(as_user(&desk, "token-of-alice", Method::POST, "/threads", make.clone()).await.0, 200);
    assert_eq!(of_bob(Method::PATCH, change.clone()).await.0, 404, "the thread is another user's");
    // Due, as if it had been changed before the thread was deleted.
    let (crons, id) = (Crons::of(&store), cron["cron_id"].as_str().expect("an id"));
    for enabled in [false, true] {
        let mut due = crons.get(id).await.expect("the store").expect("the cron");
        (due.enabled, due.next) = (enabled, Some(SystemTime::now()));
        assert!(crons.replace(&due).await.expect("a change"));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let cron = crons.get(id).await.expect("the store").expect("the cron");
        assert!(!cron.enabled, "it is disabled: {enabled}");
        assert_eq!(store.driver().runs(RunQuery::default()).await.expect("runs"), [], "it does not fire: {enabled}");
    }

    // The same user has a later thread with the id.
    assert_eq!(as_user(&desk, "token-of-alice", Method::DELETE, &format!("/threads/{thread}"), json!({})).await.0, 204);
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, "/threads", make).await.0, 200);
    let (status, refused) = of_bob(Method::PATCH, change).await;
    let says = "the thread of the cron was deleted: delete the cron, and create another one";
    assert_eq!((status, &refused["detail"]), (409, &json!(says)));
    assert_eq!(of_bob(Method::DELETE, json!({})).await.0, 204);
    desk.stop().await;
}

#[tokio::test]
async fn crons_of_others_look_absent() {
    let tokens = Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]);
    let desk: Desk = open(server().auth(tokens)).await;
    let ask = async |token: &str, method: Method, path: &str, body: Value| {
        let request = desk.client.request(method, format!("{}{path}", desk.base)).bearer_auth(token).json(&body);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.json::<Value>().await.unwrap_or_default())
    };
    let body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
    let (_, cron) = ask("token-of-alice", Method::POST, "/runs/crons", body).await;
    assert_eq!((&cron["user_id"], &cron["metadata"]["owner"]), (&json!("alice"), &json!("alice")));
    assert!(!cron.to_string().contains("permissions"), "{cron}");
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"));
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        assert_eq!(ask("token-of-bob", method.clone(), &path, json!({})).await.0, 404, "{method}");
    }
    assert_eq!(ask("token-of-bob", Method::POST, "/runs/crons/search", json!({})).await.1, json!([]));
    assert_eq!(ask("token-of-alice", Method::POST, "/runs/crons/count", json!({})).await.1, json!(1));
    desk.stop().await;
}

/// An administrator changes the cron of a user. It stays the user's, with the threads of its runs.
#[tokio::test]
async fn cron_that_another_user_changes_keeps_its_owner() {
    const ALICE: &str = "alice:create,read,update,delete,search,run";
    const ADMIN: &str = "admin:create*,read*,update*,delete*,search*,run*";
    let store = MemoryRuns::new();
    let served = server().auth(Roles).storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
    let desk: Desk = open(served).await;
    let (_, thread) = as_user(&desk, ALICE, Method::POST, "/threads", json!({})).await;
    let thread = thread["thread_id"].as_str().expect("an id").to_owned();
    let body = json!({
        "assistant_id": "two", "schedule": YEARLY, "input": { "n": 1 }, "on_run_completed": "keep",
        "metadata": { "k": 1, "owner": "alice" },
    });
    for (count, path) in ["/runs/crons".to_owned(), format!("/threads/{thread}/runs/crons")].iter().enumerate() {
        let (status, cron) = as_user(&desk, ALICE, Method::POST, path, body.clone()).await;
        assert_eq!(status, 200, "{cron}");
        let path = format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"));
        // The users send the metadata as they have received it.
        let sent = json!({ "metadata": { "k": 3, "owner": "alice" } });
        let change = json!({ "schedule": "0 0 2 1 *", "metadata": { "k": 2 } });
        for (user, change) in [(ADMIN, &change), (ALICE, &sent), (ADMIN, &sent), (ADMIN, &change)] {
            assert_eq!(as_user(&desk, user, Method::PATCH, &path, change.clone()).await.0, 200);
        }
        let (status, cron) = as_user(&desk, ALICE, Method::GET, &path, json!({})).await;
        assert_eq!((status, &cron["metadata"]), (200, &json!({ "k": 2, "owner": "alice" })));
        assert_eq!((&cron["user_id"], &cron["schedule"]), (&json!("alice"), &json!("0 0 2 1 *")));
        hurry(&store).await;
        let run = ended(&store, 2 * count + 1).await.remove(0);
        let user = |run: &hier_core::runs::Run| run.request.config["configurable"]["langgraph_auth_user"].clone();
        assert_eq!(user(&run)["identity"], "alice", "the administrator has not changed what runs");
        let of_run = format!("/threads/{}", run.thread);
        assert_eq!(as_user(&desk, ALICE, Method::GET, &of_run, json!({})).await.0, 200, "the thread is Alice's");

        assert_eq!(as_user(&desk, ADMIN, Method::PATCH, &path, json!({ "input": { "n": 2 } })).await.0, 200);
        hurry(&store).await;
        let run = ended(&store, 2 * count + 2).await.remove(0);
        assert_eq!(user(&run)["identity"], "admin", "a user cannot choose what runs as another");
        assert_eq!(as_user(&desk, ALICE, Method::DELETE, &path, json!({})).await.0, 204);
    }
    desk.stop().await;
}

/// Neither a change of the cron nor its id in the configuration changes the context of the runs.
#[tokio::test]
async fn runs_of_a_cron_have_the_latest_configuration_of_their_assistant() {
    let store = MemoryRuns::new();
    let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let body = json!({ "graph_id": "two", "context": { "prompt": "old" }, "config": { "tags": ["x"] } });
    let (_, assistant) = desk.post("/assistants", body).await;
    let body = json!({ "assistant_id": assistant["assistant_id"], "schedule": YEARLY, "input": { "n": 1 } });
    let (_, cron) = desk.post("/runs/crons", body).await;
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().expect("an id"));
    let fired = async |count| {
        hurry(&store).await;
        let request = ended(&store, count).await.remove(0).request;
        assert_eq!(request.config["configurable"]["cron_id"], cron["cron_id"]);
        assert_eq!(request.config["tags"], json!(["x"]));
        request.context
    };
    assert_eq!(fired(1).await, json!({ "prompt": "old" }));
    assert_eq!(desk.ask(Method::PATCH, &path, json!({ "enabled": true })).await.0, 200);
    assert_eq!(fired(2).await, json!({ "prompt": "old" }));
    let at = format!("/assistants/{}", assistant["assistant_id"].as_str().expect("an id"));
    assert_eq!(desk.ask(Method::PATCH, &at, json!({ "context": { "prompt": "new" } })).await.0, 200);
    assert_eq!(fired(3).await, json!({ "prompt": "new" }));
    assert_eq!(desk.ask(Method::DELETE, &at, Value::Null).await.0, 204);
    assert_eq!(fired(4).await, json!({ "prompt": "new" }), "the cron keeps the last one");
    desk.stop().await;
}

/// Other users may have any number of crons.
#[tokio::test]
async fn neither_a_deletion_nor_a_new_cron_reads_the_crons_of_all_users() {
    let lists = Arc::new(AtomicUsize::new(0));
    let store = HookedStore::new({
        let lists = lists.clone();
        move |call| {
            lists.fetch_add(usize::from(matches!(call, StoreCall::FindDocuments("cron"))), Ordering::SeqCst);
            Fate::Done
        }
    });
    let desk = open(server().storage(store, Arc::new(MemoryStore::default()))).await;
    let thread = desk.thread().await;
    let body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
    let (status, cron) = desk.post(&format!("/threads/{thread}/runs/crons"), body.clone()).await;
    assert_eq!((status, &cron["user_id"]), (200, &json!("")), "{cron}");
    assert_eq!(desk.post("/runs/crons", body).await.0, 200);
    assert_eq!(desk.ask(Method::DELETE, &format!("/threads/{thread}"), Value::Null).await.0, 204);
    assert_eq!(lists.load(Ordering::SeqCst), 0);
    desk.stop().await;
}
