//! Between the check of a user's rights and the effect of the request, the thread is deleted and created again by another user. The later
//! thread stays as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, PostOutcome,
    SaverError,
};
use hier_core::graph::Graph as _;
use hier_core::runs::{
    Changed, NewRun, NewThread, Request, RunQuery, RunStore, RunsError, ThreadAction, ThreadChange, ThreadIs,
};
use hier_core::store::MemoryStore;
use hier_server::auth::{Tokens, User};
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::graphs::server;
use crate::mail::Shop;
use crate::support::{Desk, as_user, open};

/// The run and the letter of Alice's thread.
const ALICES: Uuid = Uuid::from_u128(0x0197_a3c4_0000_7000_8000_0000_0000_0001);

/// A store in which the next call that changes a thread comes just after the thread was replaced by one of Alice.
struct Replacing {
    runs: Arc<dyn RunStore>,
    is_armed: AtomicBool,
    /// As above, for the next run that a worker adds to continue a thread.
    is_armed_for_worker: AtomicBool,
}

impl Replacing {
    fn new(runs: Arc<dyn RunStore>) -> Arc<Layered<Self>> {
        Arc::new(Layered(Self { runs, is_armed: AtomicBool::new(false), is_armed_for_worker: AtomicBool::new(false) }))
    }

    async fn replace(&self, thread: &str) {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.runs.remove_thread(thread).await.expect("it is deleted");
            make(&*self.runs, thread, "alice").await;
        }
    }

    /// Replaces the thread by one without a run.
    async fn replace_by_idle(&self, thread: &str) {
        if self.is_armed_for_worker.swap(false, Ordering::SeqCst) {
            self.runs.remove_thread(thread).await.expect("it is deleted");
            let mut new = NewThread::new(thread);
            new.metadata = owned("alice");
            self.runs.create_thread(new).await.expect("a thread");
        }
    }
}

fn owned(owner: &str) -> Map<String, Value> {
    Map::from_iter([("owner".to_owned(), json!(owner)), ("graph_id".to_owned(), json!("shop"))])
}

/// A thread of this user, with a run that waits and a message.
async fn make(runs: &dyn RunStore, thread: &str, owner: &str) {
    let mut new = NewThread::new(thread);
    new.metadata = owned(owner);
    runs.create_thread(new).await.expect("a thread");
    let mut run = NewRun::new(thread, "shop", Request::input(json!({})));
    run.id = Some(ALICES);
    runs.create_run(run).await.expect("a run");
    runs.inbox()
        .expect("an inbox")
        .post(thread, "shop", InboxMessage::message(ALICES, vec![0xc0]))
        .await
        .expect("a message");
}

#[async_trait]
impl SaverLayer for Replacing {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.runs
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.replace(thread).await;
        self.runs.acquire(thread, claim).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_inbox(self)
    }
}

#[hier_core::async_trait]
impl Inbox for Replacing {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.replace(thread).await;
        self.runs.inbox()?.post(thread, graph, letter).await
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.runs.inbox()?.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.runs.inbox()?.due(query).await
    }
}

#[async_trait]
impl RunsLayer for Replacing {
    fn runs_store(&self) -> &dyn RunStore {
        &*self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if matches!(change.action, ThreadAction::Patch(_) | ThreadAction::Cancel(..)) {
            self.replace(&change.thread).await;
        }
        // A worker adds this run to continue the thread.
        if matches!(&change.action, ThreadAction::Add(run, _) if run.metadata.contains_key("woken")) {
            self.replace_by_idle(&change.thread).await;
        }
        self.runs.run_backend().change(change).await
    }

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        self.replace(id).await;
        self.runs.thread_backend().delete_thread_if(id, is).await
    }

    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        letter: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        self.replace(thread).await;
        self.runs.thread_backend().post_to(thread, is, graph, letter).await
    }
}

async fn later_thread_is_unchanged(runs: Arc<dyn RunStore>) {
    let store = Replacing::new(runs.clone());
    let tokens = Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]);
    let served = server().graph("shop", Shop::compile(), ()).auth(tokens).without_worker();
    let desk: Desk = open(served.storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    let cancel = format!("runs/{ALICES}/cancel");
    let letter = format!("mail/{ALICES}");
    let requests = [
        (Method::DELETE, "", json!({}), 204),
        (Method::PATCH, "", json!({ "metadata": { "by": "bob" } }), 404),
        (Method::POST, &cancel, json!({}), 404),
        (Method::POST, "signals/paid", json!({ "value": "r-17" }), 404),
        (Method::DELETE, &letter, json!({}), 404),
    ];
    for (method, path, body, want) in requests {
        let thread = Uuid::now_v7().to_string();
        make(&*runs, &thread, "bob").await;
        store.is_armed.store(true, Ordering::SeqCst);
        let at = format!("/threads/{thread}/{path}");
        let (status, answer) = as_user(&desk, "token-of-bob", method.clone(), at.trim_end_matches('/'), body).await;
        assert_eq!(status, want, "{method} {path}: {answer}");
        assert!(!store.is_armed.load(Ordering::SeqCst), "{method} {path} changes something");
        let row = runs.thread(&thread).await.expect("the store").expect("the later thread");
        assert_eq!(row.metadata, owned("alice"), "{method} {path}");
        let run = runs.run(ALICES).await.expect("the store").expect("the run of the later thread");
        assert!(run.status.is_live() && run.cancel.is_none(), "{method} {path}: {run:?}");
        let mail = runs.inbox().expect("an inbox").messages(&thread).await.expect("the store");
        assert_eq!(mail.iter().map(|posted| posted.message.id).collect::<Vec<_>>(), [ALICES], "{method} {path}");
        runs.remove_thread(&thread).await.expect("it is deleted");
    }
    desk.stop().await;
}

#[tokio::test]
async fn later_thread_is_unchanged_in_memory() {
    later_thread_is_unchanged(Arc::new(hier_core::runs::MemoryRuns::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn later_thread_is_unchanged_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = hier_sqlite::Sqlite::open(folder.path().join("runs.db")).await.expect("a database");
    later_thread_is_unchanged(Arc::new(runs)).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn later_thread_is_unchanged_on_postgres() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let runs = hier_postgres::Postgres::options().connect(&url).await.expect("a database");
    runs.migrate().await.expect("tables");
    later_thread_is_unchanged(Arc::new(runs)).await;
}

/// The earlier thread waits for a signal. A worker has read its row when the thread is replaced.
#[tokio::test]
async fn later_thread_is_not_continued_with_the_run_of_the_earlier_one() {
    let runs = Arc::new(hier_core::runs::MemoryRuns::new());
    let store = Replacing::new(runs.clone());
    let tokens = Tokens::new([("token-of-bob", User::new("bob"))]);
    let served = server().graph("shop", Shop::compile(), ()).auth(tokens);
    let desk: Desk = open(served.storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    let (_, thread) = as_user(&desk, "token-of-bob", Method::POST, "/threads", json!({})).await;
    let thread = thread["thread_id"].as_str().expect("an id").to_owned();
    let path = format!("/threads/{thread}");
    let body = json!({ "assistant_id": "shop", "input": { "seconds": 0.0 } });
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, &format!("{path}/runs/wait"), body).await.0, 200);
    store.is_armed_for_worker.store(true, Ordering::SeqCst);
    let signal = format!("{path}/signals/paid");
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, &signal, json!({ "value": "r-17" })).await.0, 200);
    let replaced = async {
        while store.is_armed_for_worker.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), replaced).await.expect("the worker continues the thread");
    desk.stop().await;
    let row = runs.driver().thread(&thread).await.expect("the store").expect("the later thread");
    assert_eq!(row.metadata, owned("alice"));
    assert!(runs.driver().runs(RunQuery::thread(&*thread)).await.expect("the store").is_empty());
}
