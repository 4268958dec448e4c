//! A saver that panics, in whatever it is called for: the call ends in an error that says so.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, LeaseState,
    ListQuery, Listed, MemorySaver, PostOutcome, Saved, SaverError,
};
use hier_core::graph::Signal;
use hier_core::prelude::*;
use hier_core::{Result, StateUpdate};
use hier_testkit::{Layered, SaverLayer};
use uuid::Uuid;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    text: String,
}

async fn ask(run: &Run) -> Result<CaseUpdate> {
    let text: String = run.interrupt(&"go on?").await?;
    Ok(Case::update().text(text))
}

async fn listen(run: &Run) -> Result<CaseUpdate> {
    let text: String = run.signal("go").await?;
    Ok(Case::update().text(text))
}

graph! { Desk<Case> = Graph { nodes: [ask, listen], edges: [START >> ask >> listen >> END] } }

/// Panics in one of its methods on request.
#[derive(Clone, Default)]
struct Panicking {
    memory: MemorySaver,
    method: Arc<Mutex<Option<&'static str>>>,
}

impl Panicking {
    fn in_method(&self, method: &str) {
        let is_armed = *self.method.lock().expect("this saver does not panic") == Some(method);
        assert!(!is_armed, "boom in {method}");
    }
}

#[hier_core::async_trait]
impl SaverLayer for Panicking {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.in_method("acquire");
        self.memory.acquire(thread, claim).await
    }
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.in_method(if commit.also.is_some() { "commit_also" } else { "commit" });
        self.memory.commit(lease, commit).await
    }
    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.in_method("get");
        self.memory.get(thread, namespace, id).await
    }
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        self.in_method("list");
        self.memory.list(query).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_inbox(self)
    }
}

#[hier_core::async_trait]
impl Inbox for Panicking {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.in_method("post");
        self.memory.post(thread, graph, letter).await
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.in_method("mail");
        self.memory.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.in_method("due");
        self.memory.due(query).await
    }
}

/// Does this with a thread that waits for an answer, or for a signal that has come.
async fn doing(what: &str, saver: &Layered<Panicking>, method: &'static str) -> Result<(), RunError> {
    let graph = Desk::compile().checkpointer(saver.clone());
    let config = || Config::new().thread("t");
    drop(graph.invoke(Case::update()).config(config()).await.expect("it asks"));
    if what == "drive" {
        drop(graph.invoke(Command::resume("yes")).config(config()).await.expect("it waits for a signal"));
    }
    graph.send("t", Signal::new("go", &"text")).await.expect("a letter");
    let letter = graph.waiting("t").await.expect("the mail")[0].message.id;
    *saver.method.lock().expect("this saver does not panic") = Some(method);
    match what {
        "begin" => graph.invoke(Case::update()).thread("new").await.map(|_| ()),
        "answer" => graph.invoke(Command::resume("yes")).config(config()).await.map(|_| ()),
        "update" => graph.update_state(config(), StateUpdate::update(Case::update().text("x"))).await.map(|_| ()),
        "state" => graph.state(config()).await.map(|_| ()),
        "history" => graph.states(config()).await.map(|_| ()),
        "send" => graph.send("t", Signal::new("go", &"more")).await.map(|_| ()),
        "mail" => graph.waiting("t").await.map(|_| ()),
        "discard" => graph.discard("t", letter).await.map(|_| ()),
        _ => {
            let now = SystemTime::now() + Duration::from_secs(1);
            let driven = graph.sweeper(|_| ()).drive_due(now).await?;
            driven.into_iter().next().expect("it is due").outcome.map(|_| ())
        }
    }
}

#[tokio::test]
async fn saver_panic_is_reported_as_an_error() {
    let calls = [
        ("begin", ["acquire", "get", "commit"].as_slice()),
        ("answer", &["acquire", "get", "commit"]),
        ("update", &["acquire", "get", "list", "commit"]),
        ("state", &["get"]),
        ("history", &["list", "get"]),
        ("send", &["post"]),
        ("mail", &["mail"]),
        ("discard", &["mail", "acquire", "commit_also"]),
        ("drive", &["due", "mail", "get", "acquire", "commit", "commit_also"]),
    ];
    for (what, methods) in calls {
        for method in methods {
            let error = doing(what, &Layered::default(), method).await.expect_err("the saver panics");
            let is_reported = matches!(error.root(), RunError::Saver { error: SaverError::Panicked { .. }, .. });
            assert!(
                is_reported && error.to_string().contains(&format!("boom in {method}")),
                "{what}, {method}: {error}"
            );
        }
    }
}

/// If the thread stayed claimed, no run could continue it until the lease expired, in memory never.
#[tokio::test]
async fn thread_is_released_after_a_panic_in_discard() {
    let saver = Layered(Panicking::default());
    let graph = Desk::compile().checkpointer(saver.clone());
    drop(graph.invoke(Case::update()).thread("t").await.expect("it asks"));
    graph.send("t", Signal::new("go", &"text")).await.expect("a letter");
    let letter = graph.waiting("t").await.expect("the mail")[0].message.id;
    *saver.method.lock().expect("this saver does not panic") = Some("commit_also");
    let error = graph.discard("t", letter).await.expect_err("the saver panics");
    assert!(error.to_string().contains("boom in commit_also"), "{error}");
    *saver.method.lock().expect("this saver does not panic") = None;
    assert!(graph.discard("t", letter).await.expect("the thread is free"));
}
