//! The client, which calls graphs through Restate's ingress.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hier_core::checkpoint::{InboxMessage, ListQuery, codec};
use hier_core::drive::{self, Settings};
use hier_core::graph::{BoxFuture, DynInput, DynSnapshot, DynUpdates, GraphRequest, RequestKind};
use hier_core::{Config, Outcome};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, RunFailure};
use crate::message;
use crate::thread::Updated;
use crate::wire::{Begin, Ended, HistoryRange, Post, StateRequest, StreamListener, UpdateState, run_service};
use crate::work::millis;

const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The default time for which a client retries a call while it cannot reach Restate.
const PATIENCE: Duration = Duration::from_mins(1);

/// The time that a node of Restate may need to learn of a worker that was registered at another node, or before the
/// node restarted.
const LAG: Duration = Duration::from_secs(15);

/// A client of the graphs on a Restate cluster. Clones are cheap.
#[derive(Clone, Debug)]
#[must_use]
pub struct Client {
    http: reqwest::Client,
    ingresses: Vec<String>,
    /// The index of the ingress in use.
    at: Arc<AtomicUsize>,
    patience: Duration,
    limit: usize,
}

/// A graph on the cluster, for calls through a [`Client`]. Inputs and states are JSON objects whose keys are the names
/// of channels.
#[derive(Clone, Debug)]
pub struct RemoteGraph {
    client: Client,
    name: String,
    /// True after the first successful response.
    known: Arc<AtomicBool>,
}

impl Client {
    /// Creates a client for the ingress at this URL, such as `http://127.0.0.1:8080`. The ingress is the address at
    /// which Restate accepts calls of clients.
    pub fn new(ingress: impl Into<String>) -> Self {
        let http = reqwest::Client::new();
        Self { http, ingresses: Vec::new(), at: Arc::default(), patience: PATIENCE, limit: 16 << 20 }
            .another_ingress(ingress)
    }

    /// Adds the ingress of another node of the same Restate cluster. If the client cannot reach the current node, it
    /// repeats its calls at the next node. If a call has started a run and waits for its end, the repeated call waits
    /// for the same run, and does not start another one.
    pub fn another_ingress(mut self, ingress: impl Into<String>) -> Self {
        self.ingresses.push(ingress.into().trim_end_matches('/').to_owned());
        self
    }

    /// Sets the time for which the client retries a call while it cannot reach Restate. Defaults to 1 minute. A retry
    /// does not repeat the work of a call that Restate has already accepted.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum size of a request, in bytes. Defaults to 16 MiB. Set the same size at the workers with
    /// [`Endpoint::max_payload`](crate::Endpoint::max_payload).
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Creates a handle for the graph that the workers serve under this name. Does not check that a worker serves it.
    pub fn graph(&self, name: impl Into<String>) -> RemoteGraph {
        RemoteGraph { client: self.clone(), name: name.into(), known: Arc::default() }
    }

    /// Calls a handler. A handler that changes something needs a key, so that a retry does not repeat the change.
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        key: Option<Uuid>,
        known: &AtomicBool,
    ) -> Result<A, Error> {
        let body = codec::encode_record(request)
            .map_err(|error| Error::Input(format!("cannot encode the request: {error}")))?;
        message::check("the request", body.len(), self.limit)?;
        let begun = Instant::now();
        let mut pause = Duration::from_millis(20);
        // True if the node may not know the workers yet.
        let mut is_late = self.ingresses.len() > 1;
        loop {
            let at = self.at.load(Ordering::Relaxed) % self.ingresses.len();
            let place = format!("{}/{path}", self.ingresses[at]);
            let mut sent = self.http.post(&place).header("content-type", "application/octet-stream").body(body.clone());
            if let Some(key) = key {
                sent = sent.header("idempotency-key", key.to_string());
            }
            let refused = match read(sent).await {
                Ok((status, bytes)) if status.is_success() => {
                    known.store(true, Ordering::Relaxed);
                    return codec::decode(&bytes)
                        .map_err(|error| Error::Unreadable { place, reason: error.to_string() });
                }
                Ok((status, bytes)) => {
                    let said = String::from_utf8_lossy(&bytes).into_owned();
                    let will_come = known.load(Ordering::Relaxed) || is_late && begun.elapsed() < LAG;
                    if !(is_passing(status) || status == StatusCode::NOT_FOUND && will_come) {
                        return Err(Error::Restate { reason: error_text(status, &said), place });
                    }
                    error_text(status, &said)
                }
                Err(error) => error,
            };
            if begun.elapsed() > self.patience {
                return Err(Error::Restate { place, reason: refused });
            }
            is_late = true;
            // If several calls fail at the same time, only one of them moves the client to the next node.
            let next = (at + 1) % self.ingresses.len();
            let _ = self.at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

pub(crate) async fn read(sent: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    let whole = |error: reqwest::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    };
    let answer = sent.send().await.map_err(whole)?;
    Ok((answer.status(), answer.bytes().await.map_err(whole)?.to_vec()))
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR || status == StatusCode::TOO_MANY_REQUESTS
}

pub(crate) fn error_text(status: StatusCode, said: &str) -> String {
    match status {
        StatusCode::NOT_FOUND => {
            format!("{said} ({status}): no worker with this graph is registered, see `hier_restate::register`")
        }
        _ => format!("{said} ({status})"),
    }
}

/// Returns the settings of a configuration. Fails if the configuration has no thread.
pub(crate) fn settings_of(config: &Config) -> Result<Settings, Error> {
    let settings = Settings::of(config);
    if settings.thread.is_empty() {
        return Err(Error::Input("the configuration names no thread: add `.thread(id)`".to_owned()));
    }
    drive::check(config).map_err(|error| RunFailure::from_run_error(&error))?;
    Ok(settings)
}

/// The type parameter of the [`GraphRequest`] that [`RemoteGraph::invoke`] returns.
pub struct RemoteInvoke {
    graph: RemoteGraph,
    input: DynInput,
    running: Option<BoxFuture<'static, Result<Outcome<Value>, Error>>>,
}

impl fmt::Debug for RemoteInvoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteInvoke").field("graph", &self.graph).field("input", &self.input).finish_non_exhaustive()
    }
}

impl RequestKind<()> for RemoteInvoke {
    type Output = Result<Outcome<Value>, Error>;

    fn started(&mut self, options: impl FnOnce() -> (Arc<Config>, Arc<()>)) -> &mut BoxFuture<'static, Self::Output> {
        let Self { graph, input, running } = self;
        running.get_or_insert_with(|| {
            let (graph, input, (config, _)) = (graph.clone(), std::mem::replace(input, DynInput::Continue), options());
            Box::pin(async move { graph.begin(Uuid::new_v4(), input, settings_of(&config)?, None).await })
        })
    }
}

impl RemoteGraph {
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        key: Option<Uuid>,
    ) -> Result<A, Error> {
        self.client.call(path, request, key, &self.known).await
    }

    fn path(&self, thread: &str, handler: &str) -> String {
        let encoded = |part| utf8_percent_encode(part, IN_PATHS).to_string();
        format!("{}/{}/{handler}", encoded(&self.name), encoded(thread))
    }

    /// Returns a request that runs the graph on a thread. Awaiting the request starts the run and returns the outcome
    /// when the run has finished, has asked a question or was stopped.
    ///
    /// If you drop the future after the cluster has accepted the run, the run continues.
    pub fn invoke(&self, input: DynInput) -> GraphRequest<RemoteInvoke> {
        GraphRequest::new(RemoteInvoke { graph: self.clone(), input, running: None })
    }

    /// Begins the run with this id and waits for its end. If a run with this id is in progress or has ended recently,
    /// waits for that run instead.
    pub(crate) async fn begin(
        &self,
        run: Uuid,
        input: DynInput,
        settings: Settings,
        listener: Option<StreamListener>,
    ) -> Result<Outcome<Value>, Error> {
        let begin = Begin { run, asked: millis(SystemTime::now()), input, settings, awakeable: None, listener };
        let path = format!("{}/invoke", run_service(&self.name));
        let ended: Ended = self.call(&path, &begin, Some(run)).await?;
        Ok(ended?)
    }

    /// Returns the state of a thread at its latest checkpoint. If the configuration names a checkpoint, returns the
    /// state at this checkpoint.
    pub async fn state(&self, config: impl Into<Config>) -> Result<DynSnapshot, Error> {
        let settings = settings_of(&config.into())?;
        let mut snapshots = self.read(StateRequest { settings, history: None }).await?;
        snapshots.pop().ok_or_else(|| Error::Input("the worker returned no state".to_owned()))
    }

    /// Returns the states of a thread at the checkpoints that match the query, newest first.
    pub async fn history(&self, config: impl Into<Config>, query: ListQuery) -> Result<Vec<DynSnapshot>, Error> {
        let settings = settings_of(&config.into())?;
        let filter = query.filter.into_iter().collect();
        let history = Some(HistoryRange { limit: query.limit, before: query.before, filter });
        self.read(StateRequest { settings, history }).await
    }

    async fn read(&self, read: StateRequest) -> Result<Vec<DynSnapshot>, Error> {
        let path = self.path(&read.settings.thread, "read");
        let snapshots: Result<Vec<DynSnapshot>, RunFailure> = self.call(&path, &read, None).await?;
        Ok(snapshots?)
    }

    /// Changes the state of a thread outside of its runs. Returns a configuration that names the new checkpoint.
    pub async fn update_state(&self, config: impl Into<Config>, update: DynUpdates) -> Result<Config, Error> {
        self.bulk_update_state(config, vec![vec![update]]).await
    }

    /// Changes the state of a thread outside of its runs, in several supersteps. Applies `supersteps` in order. Each
    /// superstep consists of one or more updates. Returns a configuration that names the last new checkpoint.
    pub async fn bulk_update_state(
        &self,
        config: impl Into<Config>,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, Error> {
        let config = config.into();
        let settings = settings_of(&config)?;
        let path = self.path(&settings.thread, "update");
        let update = UpdateState { asked: millis(SystemTime::now()), settings, supersteps };
        let updated: Updated = self.call(&path, &update, Some(Uuid::new_v4())).await?;
        let (namespace, checkpoint) = updated?;
        let config = config.namespace(namespace);
        Ok(match checkpoint {
            Some(id) => config.checkpoint(id),
            None => config,
        })
    }

    /// Sends a message to the inbox of a thread. If an earlier message to the thread has the same id, the thread
    /// ignores this message, and the method returns false. If `id` is `None`, the method creates a new id.
    pub async fn send(&self, thread: &str, message: &impl Serialize, id: Option<Uuid>) -> Result<bool, Error> {
        self.post(thread, id, InboxMessage::message, message).await
    }

    /// Sends the signal `name` with the value `value` to a thread. If an earlier signal or message to the thread has
    /// the same id, the thread ignores this signal, and the method returns false. If `id` is `None`, the method creates
    /// a new id.
    pub async fn signal(
        &self,
        thread: &str,
        name: &str,
        value: &impl Serialize,
        id: Option<Uuid>,
    ) -> Result<bool, Error> {
        self.post(thread, id, |id, value| InboxMessage::signal(id, name, value), value).await
    }

    async fn post(
        &self,
        thread: &str,
        id: Option<Uuid>,
        letter: impl FnOnce(Uuid, Vec<u8>) -> InboxMessage,
        value: &impl Serialize,
    ) -> Result<bool, Error> {
        let id = id.unwrap_or_else(Uuid::new_v4);
        let value =
            codec::encode(value).map_err(|error| Error::Input(format!("cannot encode the message: {error}")))?;
        self.deliver(thread, letter(id, value)).await
    }

    pub(crate) async fn deliver(&self, thread: &str, letter: InboxMessage) -> Result<bool, Error> {
        let path = self.path(thread, "post");
        let posted: Result<bool, RunFailure> = self.call(&path, &Post { letter }, Some(Uuid::new_v4())).await?;
        Ok(posted?)
    }

    /// Cancels the run of a thread after its current superstep. The thread keeps the results of stored supersteps.
    /// Returns false if no run of the thread is in progress.
    pub async fn cancel(&self, thread: &str) -> Result<bool, Error> {
        self.call(&self.path(thread, "cancel"), &None::<Uuid>, Some(Uuid::new_v4())).await
    }

    /// Like [`cancel`](Self::cancel), but only if the current run of the thread has this id.
    pub(crate) async fn cancel_run(&self, thread: &str, run: Uuid) -> Result<bool, Error> {
        self.call(&self.path(thread, "cancel"), &Some(run), Some(Uuid::new_v4())).await
    }

    /// Deletes a thread with its history from Restate. If the graph stores its threads in a database
    /// ([`Endpoint::saver`](crate::Endpoint::saver)), also deletes the thread from the database.
    pub async fn delete(&self, thread: &str) -> Result<(), Error> {
        self.call(&self.path(thread, "delete"), &(), Some(Uuid::new_v4())).await
    }
}
