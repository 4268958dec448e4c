//! A server on a free port, its client, and its storage.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::runs::{Changed, Document, MemoryRuns, Run, RunStore, RunsError, ThreadAction, ThreadChange, ThreadIs};
use hier_server::auth::{Access, Action, Auth, Credentials, Decision, Resource, User};
use hier_server::{ApiError, Running, Server, async_trait};
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) struct Desk {
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    running: Running,
}

/// A server with the graphs of these tests.
pub(crate) async fn desk() -> Desk {
    open(crate::graphs::server()).await
}

pub(crate) async fn open(server: Server) -> Desk {
    let running = server.start("127.0.0.1:0").await.expect("the server starts");
    Desk { base: format!("http://{}", running.address()), client: reqwest::Client::new(), running }
}

impl Desk {
    pub(crate) async fn stop(self) {
        self.running.stop().await.expect("the server stops");
    }

    /// A request with a body.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.base)).timeout(Duration::from_secs(90));
        let request = if body.is_null() { request } else { request.json(body) };
        request.send().await.expect("an answer")
    }

    /// The status and the body of an answer.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let response = self.send(method, path, &body).await;
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, Value::Null).await
    }

    /// A new thread.
    pub(crate) async fn thread(&self) -> String {
        let (status, thread) = self.post("/threads", json!({})).await;
        assert_eq!(status, 200, "{thread}");
        thread["thread_id"].as_str().expect("an id").to_owned()
    }

    /// The events of a stream that ends.
    pub(crate) async fn events(&self, method: Method, path: &str, body: Value) -> Vec<SentEvent> {
        let response = self.send(method, path, &body).await;
        assert_eq!(response.status().as_u16(), 200);
        parse(&response.text().await.expect("a body"))
    }

    pub(crate) async fn stream(&self, thread: &str, body: Value) -> Vec<SentEvent> {
        self.events(Method::POST, &format!("/threads/{thread}/runs/stream"), body).await
    }

    /// Reads an open stream until a matching event arrives.
    pub(crate) async fn until(
        &self,
        response: &mut Response,
        text: &mut String,
        fits: impl Fn(&[SentEvent]) -> bool,
    ) -> Vec<SentEvent> {
        let read = async {
            loop {
                let received = parse(text);
                if fits(&received) {
                    return received;
                }
                let chunk = response.chunk().await.expect("a part of the stream").expect("the stream goes on");
                text.push_str(std::str::from_utf8(&chunk).expect("text"));
            }
        };
        tokio::time::timeout(Duration::from_secs(90), read).await.expect("the event comes")
    }
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SentEvent {
    pub(crate) event: String,
    pub(crate) data: Value,
    pub(crate) id: Option<String>,
}

/// The events that are complete.
pub(crate) fn parse(text: &str) -> Vec<SentEvent> {
    let frames = text.split_inclusive("\n\n").filter(|frame| frame.ends_with("\n\n") && !frame.starts_with(':'));
    let field = |frame: &str, name: &str| {
        frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    frames
        .map(|frame| SentEvent {
            event: field(frame, "event").expect("a name"),
            data: serde_json::from_str(&field(frame, "data").expect("data")).expect("JSON"),
            id: field(frame, "id"),
        })
        .collect()
}

/// The names of events.
pub(crate) fn names(received: &[SentEvent]) -> Vec<&str> {
    received.iter().map(|received| received.event.as_str()).collect()
}

/// Returns the data of the events with this name.
pub(crate) fn said<'a>(received: &'a [SentEvent], event: &str) -> Vec<&'a Value> {
    received.iter().filter(|received| received.event == event).map(|received| &received.data).collect()
}

/// The status and the body of an answer to the user with this token.
pub(crate) async fn as_user(desk: &Desk, token: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let response = sent_by(desk, token, method, path, &body).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.expect("a body")).unwrap_or_default())
}

/// The answer to the user with this token, whose body has yet to come.
pub(crate) async fn sent_by(desk: &Desk, token: &str, method: Method, path: &str, body: &Value) -> Response {
    let request = desk.client.request(method, format!("{}{path}", desk.base)).bearer_auth(token);
    request.timeout(Duration::from_secs(90)).json(body).send().await.expect("an answer")
}

/// Users by tokens like `alice:read,create*`: their rights to their own resources, and with a `*` to all resources.
pub(crate) struct Roles;

#[async_trait]
impl Auth for Roles {
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError> {
        let (name, words) = request
            .token()
            .and_then(|token| token.split_once(':'))
            .ok_or_else(|| ApiError::unauthenticated("send `NAME:WORDS`"))?;
        Ok(User::new(name).with_permissions(words.split(',')))
    }

    async fn authorize(&self, user: &User, access: Access<'_>) -> Decision {
        let word = match access.action {
            Action::Create => "create",
            Action::Read => "read",
            Action::Update => "update",
            Action::Delete => "delete",
            Action::Search => "search",
            Action::CreateRun => "run",
            _ => return Decision::Deny,
        };
        if user.permissions.iter().any(|may| may.strip_suffix('*') == Some(word)) {
            return Decision::Allow;
        }
        let is_foreign = access.resource == Resource::Store && access.namespace.first() != Some(&user.identity);
        if is_foreign || user.permissions.iter().all(|may| may != word) {
            return Decision::Deny;
        }
        Decision::Only(serde_json::Map::from_iter([("owner".to_owned(), user.identity.clone().into())]))
    }
}

/// A call of a [`HookedStore`].
pub(crate) enum StoreCall<'a> {
    Change(&'a ThreadAction),
    LoadRun,
    DeleteThread,
    /// A document with this id.
    LoadDocument(&'a str),
    /// All documents of this kind.
    FindDocuments(&'a str),
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Done,
    Refused,
    /// The call takes effect, and its answer is lost.
    AnswerLost,
    /// Another process deletes the document before the call.
    Deleted,
}

impl Fate {
    async fn of<T>(self, call: impl Future<Output = Result<T, RunsError>>) -> Result<T, RunsError> {
        if self == Self::Refused {
            return Err(broken());
        }
        let done = call.await?;
        if self == Self::AnswerLost { Err(broken()) } else { Ok(done) }
    }
}

fn broken() -> RunsError {
    SaverError::database("a test", io::Error::other("the disk is on fire")).into()
}

type Hook = Box<dyn Fn(StoreCall<'_>) -> Fate + Send + Sync>;

/// A store in memory that lets a function observe its calls and choose their fates.
pub(crate) struct HookedStore {
    pub(crate) runs: MemoryRuns,
    hook: Hook,
}

impl HookedStore {
    pub(crate) fn new(hook: impl Fn(StoreCall<'_>) -> Fate + Send + Sync + 'static) -> Arc<Layered<Self>> {
        Arc::new(Layered(Self { runs: MemoryRuns::new(), hook: Box::new(hook) }))
    }
}

impl fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedStore")
    }
}

#[async_trait]
impl SaverLayer for HookedStore {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for HookedStore {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        let fate = (self.hook)(StoreCall::Change(&change.action));
        fate.of(self.runs.run_backend().change(change)).await
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        (self.hook)(StoreCall::LoadRun).of(self.runs.run_backend().load_run(id)).await
    }

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        (self.hook)(StoreCall::DeleteThread).of(self.runs.thread_backend().delete_thread_if(id, is)).await
    }

    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        let (fate, documents) = ((self.hook)(StoreCall::LoadDocument(id)), self.runs.document_backend());
        if fate == Fate::Deleted {
            documents.delete_document(kind, id).await?;
        }
        fate.of(documents.load_document(kind, id)).await
    }

    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        (self.hook)(StoreCall::FindDocuments(kind)).of(self.runs.document_backend().find_documents(kind)).await
    }
}
