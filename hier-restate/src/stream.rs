//! Streams of events. Workers send the events directly to the client and not through Restate's journals.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::drive::Settings;
use hier_core::graph::{DynInput, GraphRequest, StreamKind};
use hier_core::runs::{NewEvent, StreamMode};
use hier_core::{Config, Outcome};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::client::{RemoteGraph, settings_of};
use crate::error::Error;
use crate::event_sender::ListenerLine;
use crate::wire::StreamListener;

const LINE: u64 = 64 << 20;

/// An item of a [`RemoteStream`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// An event of the run.
    Event(NewEvent),
    /// Some events are missing, or a worker repeated work and its new events differ from the earlier ones. This happens
    /// if a worker dies, if a worker cannot reach the client, or if a worker is faster than the network. The state of
    /// the graph is not affected: see [`RemoteGraph::state`].
    Lost,
}

/// A stream of the events of a run on the cluster.
#[must_use = "a stream yields events only when it is polled"]
pub struct RemoteStream {
    items: mpsc::UnboundedReceiver<StreamItem>,
    run: JoinHandle<Result<Outcome<Value>, Error>>,
    hub: Hub,
    token: Uuid,
    ended: Option<Result<Outcome<Value>, Error>>,
}

impl fmt::Debug for RemoteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStream").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Drop for RemoteStream {
    fn drop(&mut self) {
        self.run.abort();
        lock(&self.hub.0.runs).remove(&self.token);
    }
}

impl RemoteStream {
    /// Returns the next item, or `None` after the last event of the run. Cancel safe.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            if self.ended.is_some() {
                // All events of a run arrive before it ends.
                return self.items.try_recv().ok();
            }
            tokio::select! {
                biased;
                Some(item) = self.items.recv() => return Some(item),
                ended = &mut self.run => {
                    let gone = |error| Error::Input(format!("the task that waits for the run has ended: {error}"));
                    self.ended = Some(ended.unwrap_or_else(|error| Err(gone(error))));
                }
            }
        }
    }

    /// Waits for the end of the run and returns its outcome. Drops the remaining events.
    pub async fn outcome(mut self) -> Result<Outcome<Value>, Error> {
        while self.next().await.is_some() {}
        self.ended.take().unwrap_or_else(|| Err(Error::Input("the run has not ended".to_owned())))
    }
}

/// A receiver of the events that workers send. One hub is enough for all streams of a process. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Hub(Arc<HubInner>);

#[derive(Debug)]
struct HubInner {
    address: String,
    runs: Mutex<HashMap<Uuid, Arc<Mutex<IncomingRun>>>>,
    accepting: JoinHandle<()>,
}

impl Drop for HubInner {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Debug)]
struct IncomingRun {
    items: mpsc::UnboundedSender<StreamItem>,
    slice: u64,
    /// The events of each part of the current slice, by the name of the part.
    pieces: HashMap<String, Vec<NewEvent>>,
}

impl Hub {
    /// Listens at this address. All workers must be able to connect to it. If the workers run on the same machine, use
    /// `127.0.0.1:0`. To listen on all network interfaces, use [`reached_at`](Self::reached_at).
    ///
    /// The connection is not encrypted. A program that knows the token of a run can add events to the stream of that
    /// run, and hier sends the token only to the cluster. Keep the port inside the network of the cluster.
    pub async fn listen(address: &str) -> Result<Self, Error> {
        Self::reached_at(address, None).await
    }

    /// Listens at `address`, as [`listen`](Self::listen) does. If the port in `address` is 0, the operating system
    /// chooses a free port. Workers connect to this port at `host`, a host name or IP address. If `host` is `None`, they
    /// connect to the IP address in `address`.
    pub async fn reached_at(address: &str, host: Option<&str>) -> Result<Self, Error> {
        let failed = |error| Error::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local: SocketAddr = listener.local_addr().map_err(failed)?;
        let address = host.map_or_else(|| local.to_string(), |host| format!("{host}:{}", local.port()));
        Ok(Self(Arc::new_cyclic(|inner: &std::sync::Weak<HubInner>| HubInner {
            address,
            runs: Mutex::default(),
            accepting: tokio::spawn(accept(listener, inner.clone())),
        })))
    }
}

async fn accept(listener: TcpListener, hub: std::sync::Weak<HubInner>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let hub = hub.clone();
        tokio::spawn(async move {
            if let Err(error) = receive_events(stream, hub).await {
                tracing::debug!(%error, "lost the connection of a worker");
            }
        });
    }
}

async fn receive_events(stream: TcpStream, hub: std::sync::Weak<HubInner>) -> std::io::Result<()> {
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(stream, LINE));
    let mut text = String::new();
    let mut piece: Option<(Arc<Mutex<IncomingRun>>, IncomingPart)> = None;
    loop {
        text.clear();
        lines.get_mut().set_limit(LINE);
        // A worker that dies may leave an incomplete line. The next attempt sends that event again.
        let read = lines.read_line(&mut text).await?;
        if read == 0 || (!text.ends_with('\n') && (read as u64) < LINE) {
            return Ok(());
        }
        let line = serde_json::from_str(&text).inspect_err(|error| {
            if let Some((heard, _)) = &piece {
                tracing::warn!(%error, "dropped the events of a worker: cannot read a line, which another version of hier may have sent");
                lock(heard).send_item(StreamItem::Lost);
            }
        });
        match (line?, &mut piece) {
            (ListenerLine::Open { token, slice, part }, None) => {
                let Some(heard) = hub.upgrade().and_then(|hub| lock(&hub.runs).get(&token).cloned()) else {
                    return Ok(());
                };
                let begun = lock(&heard).begin(slice, serde_json::to_string(&part)?);
                let Some(begun) = begun else { return Ok(()) };
                piece = Some((heard, begun));
            }
            (ListenerLine::Event(event), Some((heard, piece))) => lock(heard).event(piece, event),
            (ListenerLine::Lost(_), Some((heard, _))) => lock(heard).send_item(StreamItem::Lost),
            (ListenerLine::End, Some(_)) => return lines.get_mut().get_mut().write_all(b".").await,
            _ => return Ok(()),
        }
    }
}

/// A part of a run, such as a task, whose events arrive on one connection.
struct IncomingPart {
    slice: u64,
    part: String,
    /// The number of events that this attempt has repeated without a difference from the previous attempt. `None` in
    /// the first attempt, and after the first difference.
    again: Option<usize>,
}

impl IncomingRun {
    /// Begins a part, or another attempt of a part. Returns `None` for a part of an earlier slice.
    fn begin(&mut self, slice: u64, part: String) -> Option<IncomingPart> {
        if slice < self.slice {
            return None;
        }
        if slice > self.slice {
            self.slice = slice;
            self.pieces.clear();
        }
        let received = self.pieces.entry(part.clone()).or_default();
        Some(IncomingPart { slice, part, again: (!received.is_empty()).then_some(0) })
    }

    fn event(&mut self, piece: &mut IncomingPart, event: NewEvent) {
        if piece.slice != self.slice {
            return;
        }
        let received = self.pieces.entry(piece.part.clone()).or_default();
        if let Some(again) = &mut piece.again {
            if received.get(*again) == Some(&event) {
                *again += 1;
                return;
            }
            let differs = *again < received.len();
            received.truncate(*again);
            piece.again = None;
            if differs {
                self.send_item(StreamItem::Lost);
            }
        }
        self.pieces.entry(piece.part.clone()).or_default().push(event.clone());
        self.send_item(StreamItem::Event(event));
    }

    fn send_item(&self, item: StreamItem) {
        // The stream may have been dropped.
        let _ = self.items.send(item);
    }
}

impl RemoteGraph {
    /// Returns a request that runs the graph and streams the events of the run. Call [`start`](GraphRequest::start) on
    /// the request to start the run.
    ///
    /// Workers send the events directly to the hub. If a worker dies, another worker repeats the work. The stream omits
    /// the events that the second worker repeats. If the second worker sends other events, such as other tokens of a
    /// model, the stream returns [`StreamItem::Lost`] before these events. If you drop the stream, the run continues on
    /// the cluster.
    pub fn stream(&self, hub: &Hub, input: DynInput) -> GraphRequest<RemoteStreaming> {
        let modes = vec![StreamMode::Updates];
        GraphRequest::new(RemoteStreaming { graph: self.clone(), hub: hub.clone(), input, modes })
    }

    /// Like [`stream`](Self::stream), for the run with this id.
    pub(crate) fn stream_as(
        &self,
        run: Uuid,
        hub: &Hub,
        input: DynInput,
        settings: Settings,
        modes: Vec<StreamMode>,
    ) -> RemoteStream {
        let (sender, items) = mpsc::unbounded_channel();
        let token = Uuid::new_v4();
        let heard = IncomingRun { items: sender, slice: 0, pieces: HashMap::new() };
        lock(&hub.0.runs).insert(token, Arc::new(Mutex::new(heard)));
        let listener = StreamListener { address: hub.0.address.clone(), token, modes };
        let graph = self.clone();
        let run = tokio::spawn(async move { graph.begin(run, input, settings, Some(listener)).await });
        RemoteStream { items, run, hub: hub.clone(), token, ended: None }
    }
}

/// The type parameter of the [`GraphRequest`] that [`RemoteGraph::stream`] returns.
#[derive(Debug)]
pub struct RemoteStreaming {
    graph: RemoteGraph,
    hub: Hub,
    input: DynInput,
    modes: Vec<StreamMode>,
}

impl StreamKind<()> for RemoteStreaming {
    type Events = RemoteStream;

    fn set_modes(&mut self, modes: Vec<StreamMode>) {
        self.modes = modes;
    }

    fn into_events(self, config: Arc<Config>, _: Arc<()>) -> RemoteStream {
        let Self { graph, hub, input, modes } = self;
        match settings_of(&config) {
            Ok(settings) => graph.stream_as(Uuid::new_v4(), &hub, input, settings, modes),
            Err(error) => {
                let (items, run) = (mpsc::unbounded_channel().1, tokio::spawn(async { Err(error) }));
                RemoteStream { items, run, hub, token: Uuid::nil(), ended: None }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unreadable_event_is_reported_as_lost() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let (sender, mut items) = mpsc::unbounded_channel();
        let (token, slice) = (Uuid::new_v4(), 1);
        let heard = IncomingRun { items: sender, slice, pieces: HashMap::new() };
        lock(&hub.0.runs).insert(token, Arc::new(Mutex::new(heard)));
        let mut worker = TcpStream::connect(&hub.0.address).await.unwrap();
        let open = serde_json::to_string(&ListenerLine::Open { token, slice, part: None }).unwrap();
        let unknown = r#"{"Event":{"run":null,"body":{"type":"usage","data":{}}}}"#;
        worker.write_all(format!("{open}\n{unknown}\n").as_bytes()).await.unwrap();
        assert_eq!(items.recv().await, Some(StreamItem::Lost));
    }
}
