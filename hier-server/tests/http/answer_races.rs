//! Two clients answer one question. The first answer arrives while the server processes the second.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, SaverLayer};
use hier_core::runs::{Changed, MemoryRuns, RunStore, RunsError, ThreadAction, ThreadChange, ThreadRow};
use hier_core::store::MemoryStore;
use hier_testkit::{Layered, RunsLayer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client_results::settled;
use crate::graphs::server;
use crate::support::{Desk, open};

type Act = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store in which another client acts just before one of the next calls.
struct Meanwhile {
    runs: Arc<dyn RunStore>,
    /// The number of calls before the one before which the client acts.
    armed: Mutex<Option<(usize, Act)>>,
}

impl Meanwhile {
    fn new(runs: Arc<dyn RunStore>) -> Arc<Layered<Self>> {
        Arc::new(Layered(Self { runs, armed: Mutex::default() }))
    }

    fn arm(&self, calls: usize, act: impl Future<Output = ()> + Send + 'static) {
        *self.armed.lock().expect("a lock") = Some((calls, Box::pin(act)));
    }

    /// Returns true if the client has not acted.
    fn disarm(&self) -> bool {
        self.armed.lock().expect("a lock").take().is_some()
    }

    async fn act(&self) {
        let act = {
            let mut armed = self.armed.lock().expect("a lock");
            match armed.take() {
                Some((0, act)) => Some(act),
                Some((calls, act)) => {
                    *armed = Some((calls - 1, act));
                    None
                }
                None => None,
            }
        };
        if let Some(act) = act {
            act.await;
        }
    }
}

#[async_trait]
impl SaverLayer for Meanwhile {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.runs
    }
}

#[async_trait]
impl RunsLayer for Meanwhile {
    fn runs_store(&self) -> &dyn RunStore {
        &*self.runs
    }

    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        self.act().await;
        self.runs.thread_backend().load_thread(id).await
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if matches!(change.action, ThreadAction::Add(..)) {
            self.act().await;
        }
        self.runs.run_backend().change(change).await
    }
}

/// A request of the second client, for a question with an id.
type Second = for<'a> fn(&'a Desk, &'a str, &'a str) -> Pin<Box<dyn Future<Output = Value> + 'a>>;

/// Sends the second request with the first client's action before each call of the store, and checks the response.
async fn race(desk: &Desk, store: &Meanwhile, deletes: bool, second: Second, check: impl Fn(&str, &Value)) {
    for calls in 0.. {
        let thread = desk.thread().await;
        let path = format!("/threads/{thread}");
        let wait = format!("{path}/runs/wait");
        let (_, asked) = desk.post(&wait, json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
        let id = asked["__interrupt__"][0]["id"].as_str().expect("a question").to_owned();
        let (client, base) = (desk.client.clone(), desk.base.clone());
        let (method, target) = if deletes { (Method::DELETE, path.clone()) } else { (Method::POST, wait) };
        store.arm(calls, async move {
            let answer = json!({ "assistant_id": "hitl", "command": { "resume": "first" } });
            let response = client.request(method, format!("{base}{target}")).json(&answer).send().await;
            let response = response.expect("a response");
            assert!(response.status().is_success(), "{response:?}");
            response.bytes().await.expect("a body");
        });
        let response = second(desk, &thread, &id).await;
        if store.disarm() {
            assert!(calls > 1, "several calls of the store precede the response");
            return;
        }
        check(&format!("before call {calls}"), &response);
        if deletes {
            assert_eq!(desk.get(&path).await.0, 404, "before call {calls}: the thread stays deleted");
            continue;
        }
        let row = settled(desk, &thread).await;
        assert_eq!(row["values"]["log"], json!(["a", "ask:first", "b"]), "before call {calls}: {row}");
        let (_, runs) = desk.get(&format!("{path}/runs")).await;
        assert!(
            runs.as_array().expect("runs").iter().all(|run| run["status"] == "success"),
            "before call {calls}: {runs}"
        );
    }
}

fn respond<'a>(desk: &'a Desk, thread: &'a str, id: &'a str) -> Pin<Box<dyn Future<Output = Value> + 'a>> {
    Box::pin(async move {
        let params = json!({ "interrupt_id": id, "namespace": [], "response": "second" });
        crate::client_results::command(desk, thread, "input.respond", params).await
    })
}

fn resume<'a>(desk: &'a Desk, thread: &'a str, id: &'a str) -> Pin<Box<dyn Future<Output = Value> + 'a>> {
    Box::pin(async move {
        let body = json!({ "assistant_id": "hitl", "command": { "resume": { id: "second" } } });
        let (status, body) = desk.post(&format!("/threads/{thread}/runs"), body).await;
        json!([status, body])
    })
}

async fn second_answer_is_refused(runs: Arc<dyn RunStore>) {
    let store = Meanwhile::new(runs);
    let desk = open(server().storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    for deletes in [false, true] {
        race(&desk, &store, deletes, respond, |case, response| {
            assert_eq!(response["error"], "no_such_interrupt", "{case}: {response}");
        })
        .await;
        race(&desk, &store, deletes, resume, |case, response| {
            let wants = if deletes { [404, 404] } else { [409, 422] };
            assert!(wants.iter().any(|status| response[0] == *status), "{case}: {response}");
        })
        .await;
    }
    desk.stop().await;
}

#[tokio::test]
async fn second_answer_is_refused_at_each_moment() {
    second_answer_is_refused(Arc::new(MemoryRuns::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn second_answer_is_refused_at_each_moment_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = hier_sqlite::Sqlite::open(folder.path().join("runs.db")).await.expect("a database");
    second_answer_is_refused(Arc::new(runs)).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn second_answer_is_refused_at_each_moment_on_postgres() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let runs = hier_postgres::Postgres::options().connect(&url).await.expect("a database");
    runs.migrate().await.expect("tables");
    second_answer_is_refused(Arc::new(runs)).await;
}
