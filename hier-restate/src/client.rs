//! The client: it talks to Restate's ingress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hier_core::checkpoint::{InboxMessage, ListQuery, Source, codec};
use hier_core::drive::{self, Settings};
use hier_core::graph::{DynInput, DynSnapshot, DynUpdates};
use hier_core::{Config, Outcome, Question};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Failure};
use crate::thread::Updated;
use crate::wire::{Begin, Ended, HistoryQuery, Listener, Post, Read, UpdateState, run_service};
use crate::work::millis;

const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How long calls are tried again while Restate cannot be reached, unless told otherwise.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a node may not know of a worker that another node was told of, or that it was told of before it was started again.
const LAG: Duration = Duration::from_secs(15);

/// A client of the graphs on a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    ingresses: Vec<String>,
    /// The one that calls go to.
    at: Arc<AtomicUsize>,
    patience: Duration,
    limit: usize,
}

/// A graph on the cluster. Inputs and states are JSON: objects of channel names.
#[derive(Clone, Debug)]
pub struct RemoteGraph {
    client: Client,
    name: String,
    /// Whether it is known to be there, since somebody has answered.
    known: Arc<AtomicBool>,
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The channels that have a value, by name.
    pub values: Value,
    /// The nodes that run next.
    pub next: Vec<String>,
    /// The checkpoint; none if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The checkpoint that it follows.
    pub parent: Option<Uuid>,
    /// The namespace: empty for the root graph.
    pub namespace: String,
    /// The superstep.
    pub step: i64,
    /// What made the checkpoint.
    pub source: Option<Source>,
    /// What was given with the run's configuration.
    pub metadata: Map<String, Value>,
    /// What is asked.
    pub questions: Vec<Question>,
}

impl Client {
    /// A client of the ingress at this URL, such as `http://127.0.0.1:8080`.
    pub fn new(ingress: impl Into<String>) -> Self {
        let http = reqwest::Client::new();
        Self { http, ingresses: Vec::new(), at: Arc::default(), patience: PATIENCE, limit: 16 << 20 }
            .another_ingress(ingress)
    }

    /// Another node of the same cluster: calls go on there once the one that has them cannot be reached. Who waits for the end of a run
    /// then waits there for the same run.
    #[must_use]
    pub fn another_ingress(mut self, ingress: impl Into<String>) -> Self {
        self.ingresses.push(ingress.into().trim_end_matches('/').to_owned());
        self
    }

    /// How long a call is tried again while Restate cannot be reached: a minute unless told otherwise. What is tried again is not done
    /// twice.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The longest payload that is sent, in bytes: as the workers' ([`Endpoint::max_payload`](crate::Endpoint::max_payload)).
    #[must_use]
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// The graph of this name.
    pub fn graph(&self, name: impl Into<String>) -> RemoteGraph {
        RemoteGraph { client: self.clone(), name: name.into(), known: Arc::default() }
    }

    /// Calls a handler. With a key the call is one however often it is tried; without one it has to be a question.
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        request: &Q,
        key: Option<Uuid>,
        known: &AtomicBool,
    ) -> Result<A, Error> {
        let body = codec::encode_record(request)
            .map_err(|error| Error::Input(format!("what was given cannot be sent: {error}")))?;
        if body.len() > self.limit {
            return Err(Error::Run(Failure::new(
                "PayloadTooLarge",
                format!(
                    "what is sent takes {} bytes, and Restate is given at most {} at once: keep large values in a store or a bucket and \
                     send their keys, or raise `max_payload` together with the server's `message-size-limit`",
                    body.len(),
                    self.limit
                ),
            )));
        }
        let begun = Instant::now();
        let mut pause = Duration::from_millis(20);
        // Whether the node may be one that does not know of the workers yet.
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
                        return Err(Error::Restate { reason: told(status, &said), place });
                    }
                    told(status, &said)
                }
                Err(error) => error,
            };
            if begun.elapsed() > self.patience {
                return Err(Error::Restate { place, reason: refused });
            }
            is_late = true;
            // Of many calls that fail together one moves on: the others find it moved.
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

/// Whether another try may do better.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR || status == StatusCode::TOO_MANY_REQUESTS
}

pub(crate) fn told(status: StatusCode, said: &str) -> String {
    match status {
        StatusCode::NOT_FOUND => {
            format!("{said} ({status}): no worker with this graph is registered, see `hier_restate::register`")
        }
        _ => format!("{said} ({status})"),
    }
}

/// The settings of a configuration, which has to name a thread.
pub(crate) fn settings_of(config: &Config) -> Result<Settings, Error> {
    let settings = Settings::of(config);
    if settings.thread.is_empty() {
        return Err(Error::Input("the configuration names no thread: use `Config::thread(id)`".to_owned()));
    }
    drive::check(config).map_err(|error| Failure::of(&error))?;
    Ok(settings)
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

    /// Runs the graph on a thread until it has finished, asks, or was stopped.
    ///
    /// The run is the cluster's from when it was accepted: dropping the future ends the waiting, not the run.
    pub async fn invoke(&self, input: DynInput, config: Config) -> Result<Outcome<Value>, Error> {
        self.begin(Uuid::new_v4(), input, settings_of(&config)?, None).await
    }

    /// Begins the run of this id and waits for its end; if it has begun, or has ended since yesterday, waits for that one.
    pub(crate) async fn begin(
        &self,
        run: Uuid,
        input: DynInput,
        settings: Settings,
        listener: Option<Listener>,
    ) -> Result<Outcome<Value>, Error> {
        let begin = Begin { run, asked: millis(SystemTime::now()), input, settings, awakeable: None, listener };
        let path = format!("{}/invoke", run_service(&self.name));
        let ended: Ended = self.call(&path, &begin, Some(run)).await?;
        Ok(ended?)
    }

    /// The state of a thread, or of the checkpoint that the configuration addresses.
    pub async fn state(&self, config: impl Into<Config>) -> Result<Snapshot, Error> {
        let settings = settings_of(&config.into())?;
        Ok(self.snapshot(settings).await?.into())
    }

    pub(crate) async fn snapshot(&self, settings: Settings) -> Result<DynSnapshot, Error> {
        let mut snapshots = self.read(Read { settings, history: None }).await?;
        snapshots.pop().ok_or_else(|| Error::Input("the worker has answered without a state".to_owned()))
    }

    /// The states of a thread, newest first.
    pub async fn history(&self, config: impl Into<Config>, query: ListQuery) -> Result<Vec<Snapshot>, Error> {
        let snapshots = self.snapshots(settings_of(&config.into())?, query).await?;
        Ok(snapshots.into_iter().map(Snapshot::from).collect())
    }

    pub(crate) async fn snapshots(&self, settings: Settings, query: ListQuery) -> Result<Vec<DynSnapshot>, Error> {
        let filter = query.filter.into_iter().collect();
        let history = Some(HistoryQuery { limit: query.limit, before: query.before, filter });
        self.read(Read { settings, history }).await
    }

    async fn read(&self, read: Read) -> Result<Vec<DynSnapshot>, Error> {
        let path = self.path(&read.settings.thread, "read");
        let snapshots: Result<Vec<DynSnapshot>, Failure> = self.call(&path, &read, None).await?;
        Ok(snapshots?)
    }

    /// Changes a thread from outside its runs, and returns the configuration that addresses the new checkpoint.
    pub async fn update_state(&self, config: Config, update: DynUpdates) -> Result<Config, Error> {
        self.bulk_update_state(config, vec![vec![update]]).await
    }

    /// The same with several supersteps, each of several updates.
    pub async fn bulk_update_state(&self, config: Config, supersteps: Vec<Vec<DynUpdates>>) -> Result<Config, Error> {
        let settings = settings_of(&config)?;
        let path = self.path(&settings.thread, "update");
        let updated: Updated = self.call(&path, &UpdateState { settings, supersteps }, Some(Uuid::new_v4())).await?;
        let (namespace, checkpoint) = updated?;
        let config = config.namespace(namespace);
        Ok(match checkpoint {
            Some(id) => config.checkpoint(id),
            None => config,
        })
    }

    /// Sends a message to the inbox of a thread, and says whether it is new: one with an id that was sent before is ignored.
    pub async fn send(&self, thread: &str, message: &impl Serialize, id: Option<Uuid>) -> Result<bool, Error> {
        self.post(thread, id, InboxMessage::message, message).await
    }

    /// Sends a signal to a thread.
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
            codec::encode(value).map_err(|error| Error::Input(format!("the message cannot be sent: {error}")))?;
        self.deliver(thread, letter(id, value)).await
    }

    pub(crate) async fn deliver(&self, thread: &str, letter: InboxMessage) -> Result<bool, Error> {
        let path = self.path(thread, "post");
        let posted: Result<bool, Failure> = self.call(&path, &Post { letter }, Some(Uuid::new_v4())).await?;
        Ok(posted?)
    }

    /// Ends the run of a thread after the current superstep, and returns true if there was one. Stored results are kept.
    pub async fn cancel(&self, thread: &str) -> Result<bool, Error> {
        self.call(&self.path(thread, "cancel"), &None::<Uuid>, Some(Uuid::new_v4())).await
    }

    /// Cancels only this run. A later run of the thread continues.
    pub(crate) async fn cancel_run(&self, thread: &str, run: Uuid) -> Result<bool, Error> {
        self.call(&self.path(thread, "cancel"), &Some(run), Some(Uuid::new_v4())).await
    }

    /// Deletes a thread with its history.
    pub async fn delete(&self, thread: &str) -> Result<(), Error> {
        self.call(&self.path(thread, "delete"), &(), Some(Uuid::new_v4())).await
    }
}

impl From<DynSnapshot> for Snapshot {
    fn from(snapshot: DynSnapshot) -> Self {
        let namespace = snapshot.config.checkpoint_namespace().to_owned();
        let DynSnapshot { values, next, checkpoint, parent, step, source, metadata, questions, .. } = snapshot;
        Self { values, next, checkpoint, parent, namespace, step, source, metadata, questions }
    }
}
