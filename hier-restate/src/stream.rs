//! Streams of events. Workers send the events directly to the client and not through Restate's journals.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::drive::Settings;
use hier_core::graph::{DynInput, GraphRequest, StreamKind};
use hier_core::runs::StreamMode;
use hier_core::{Config, Outcome};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::client::{RemoteGraph, settings_of};
use crate::error::Error;
use crate::event_sender::ListenerLine;
use crate::incoming::{IncomingPart, IncomingRun, StreamItem};
use crate::wire::StreamListener;

/// The maximum size of a line, in bytes.
const LINE: u64 = 64 << 20;
/// A stream of the events of a run on the cluster.
#[must_use = "a stream yields events only when it is polled"]
pub struct RemoteStream {
    incoming: Arc<Mutex<IncomingRun>>,
    arrived: Arc<Notify>,
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
    fn new(
        incoming: Arc<Mutex<IncomingRun>>,
        run: JoinHandle<Result<Outcome<Value>, Error>>,
        hub: Hub,
        token: Uuid,
    ) -> Self {
        let arrived = lock(&incoming).arrived.clone();
        Self { incoming, arrived, run, hub, token, ended: None }
    }

    /// Returns the next item, or `None` after the last event of the run. Cancel safe.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            let item = lock(&self.incoming).pop();
            // All events of a run arrive before it ends.
            if item.is_some() || self.ended.is_some() {
                return item;
            }
            tokio::select! {
                biased;
                () = self.arrived.notified() => {}
                ended = &mut self.run => {
                    let gone = |error| Error::Input(format!("the task that waits for the run has ended: {error}"));
                    let ended = ended.unwrap_or_else(|error| Err(gone(error)));
                    lock(&self.incoming).end(ended.is_ok());
                    self.ended = Some(ended);
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
                lock(heard).push(StreamItem::Lost, 0);
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
            (ListenerLine::Event(event), Some((heard, piece))) => lock(heard).event(piece, event, read),
            (ListenerLine::Lost(_), Some((heard, _))) => lock(heard).push(StreamItem::Lost, 0),
            (ListenerLine::End, Some((heard, piece))) => {
                lock(heard).complete(piece);
                return lines.get_mut().get_mut().write_all(b".").await;
            }
            _ => return Ok(()),
        }
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
        let (incoming, token) = (Arc::<Mutex<IncomingRun>>::default(), Uuid::new_v4());
        lock(&hub.0.runs).insert(token, incoming.clone());
        let listener = StreamListener { address: hub.0.address.clone(), token, modes };
        let graph = self.clone();
        let run = tokio::spawn(async move { graph.begin(run, input, settings, Some(listener)).await });
        RemoteStream::new(incoming, run, hub.clone(), token)
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
            Err(error) => RemoteStream::new(Arc::default(), tokio::spawn(async { Err(error) }), hub, Uuid::nil()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use hier_core::runs::{LogEvent, NewEvent};

    use super::*;
    use crate::incoming::WAITING;

    fn listening(hub: &Hub, end: impl Future<Output = Result<Outcome<Value>, Error>> + Send + 'static) -> RemoteStream {
        let (incoming, token) = (Arc::<Mutex<IncomingRun>>::default(), Uuid::new_v4());
        lock(&hub.0.runs).insert(token, incoming.clone());
        RemoteStream::new(incoming, tokio::spawn(end), hub.clone(), token)
    }

    fn finished() -> std::future::Ready<Result<Outcome<Value>, Error>> {
        std::future::ready(Ok(Outcome::Finished(json!({}))))
    }

    fn event(text: &str) -> NewEvent {
        NewEvent::new(None, LogEvent::Custom { node: text.to_owned(), value: json!(text) })
    }

    /// Sends lines to the hub as a worker does. Returns after the hub has read them.
    async fn send(hub: &Hub, lines: &[ListenerLine]) {
        let mut worker = TcpStream::connect(&hub.0.address).await.unwrap();
        for line in lines {
            worker.write_all(format!("{}\n", serde_json::to_string(line).unwrap()).as_bytes()).await.unwrap();
        }
        worker.shutdown().await.unwrap();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut worker, &mut Vec::new()).await;
    }

    fn open(stream: &RemoteStream, slice: u64) -> ListenerLine {
        ListenerLine::Open { token: stream.token, slice, part: None }
    }

    async fn all(stream: &mut RemoteStream) -> Vec<StreamItem> {
        let mut items = Vec::new();
        while let Some(item) = stream.next().await {
            items.push(item);
        }
        items
    }

    #[tokio::test]
    async fn unreadable_event_is_reported_as_lost() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let mut stream = listening(&hub, std::future::pending());
        let mut worker = TcpStream::connect(&hub.0.address).await.unwrap();
        let open = serde_json::to_string(&open(&stream, 1)).unwrap();
        let unknown = r#"{"Event":{"run":null,"body":{"type":"usage","data":{}}}}"#;
        worker.write_all(format!("{open}\n{unknown}\n").as_bytes()).await.unwrap();
        assert_eq!(stream.next().await, Some(StreamItem::Lost));
    }

    #[tokio::test]
    async fn missing_end_of_a_part_is_reported_as_lost() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let (a, b) = (event("a"), event("b"));
        let mut stream = listening(&hub, finished());
        send(&hub, &[open(&stream, 0), ListenerLine::Event(a.clone())]).await;
        send(&hub, &[open(&stream, 1), ListenerLine::Event(b.clone()), ListenerLine::End]).await;
        let (a, b) = (StreamItem::Event(a), StreamItem::Event(b));
        assert_eq!(all(&mut stream).await, [a.clone(), StreamItem::Lost, b]);
        let mut last = listening(&hub, finished());
        send(&hub, &[open(&last, 0), ListenerLine::Event(event("a"))]).await;
        assert_eq!(all(&mut last).await, [a, StreamItem::Lost]);
    }

    #[tokio::test]
    async fn slice_that_does_not_reach_the_client_is_reported_as_lost() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let mut stream = listening(&hub, finished());
        send(&hub, &[open(&stream, 0), ListenerLine::End]).await;
        send(&hub, &[open(&stream, 2), ListenerLine::End]).await;
        assert_eq!(all(&mut stream).await, [StreamItem::Lost]);
        let mut unheard = listening(&hub, finished());
        assert_eq!(all(&mut unheard).await, [StreamItem::Lost]);
        let mut heard = listening(&hub, finished());
        send(&hub, &[open(&heard, 0), ListenerLine::End]).await;
        send(&hub, &[open(&heard, 1), ListenerLine::End]).await;
        assert_eq!(all(&mut heard).await, []);
    }

    #[tokio::test]
    async fn full_queue_drops_the_oldest_events() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let mut stream = listening(&hub, finished());
        {
            let mut incoming = lock(&stream.incoming);
            let mut part = incoming.begin(0, String::new()).unwrap();
            for (text, bytes) in [("a", WAITING / 2), ("b", WAITING / 2), ("c", WAITING / 2), ("d", 1)] {
                incoming.event(&mut part, event(text), bytes);
            }
            incoming.complete(&part);
            // The stream does not remember `c` and `d`.
            assert_eq!(incoming.pieces[""].events.len(), 2);
        }
        let expected = [StreamItem::Lost, StreamItem::Event(event("c")), StreamItem::Event(event("d"))];
        assert_eq!(all(&mut stream).await, expected);
    }
}
