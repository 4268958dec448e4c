//! Streams: what workers tell of a run comes straight to the client, past all journals.

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
use crate::tell::Line;
use crate::wire::Listener;

/// How long a line of a worker may be.
const LINE: u64 = 64 << 20;

/// What a stream hands over.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Told {
    /// An event of the run.
    Event(NewEvent),
    /// Events are missing here, or were told of work that was done again: a worker died, could not reach the client, or was faster
    /// than the network. What the graph stored is not affected: [`RemoteGraph::state`] has it.
    Lost,
}

/// The events of a run on the cluster, as they come.
#[must_use = "a stream hands its events to whoever asks for them"]
pub struct RemoteStream {
    told: mpsc::UnboundedReceiver<Told>,
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
    /// The next event; none once the run has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            if self.ended.is_some() {
                // All pieces of a run have handed over what they tell before it ends.
                return self.told.try_recv().ok();
            }
            tokio::select! {
                biased;
                Some(told) = self.told.recv() => return Some(told),
                ended = &mut self.run => {
                    let gone = |error| Error::Input(format!("the call of the run has gone: {error}"));
                    self.ended = Some(ended.unwrap_or_else(|error| Err(gone(error))));
                }
            }
        }
    }

    /// How the run ended. What is told until then is dropped.
    pub async fn outcome(mut self) -> Result<Outcome<Value>, Error> {
        while self.next().await.is_some() {}
        self.ended.take().unwrap_or_else(|| Err(Error::Input("the run has not ended".to_owned())))
    }
}

/// Takes what workers tell. Cheap to clone; one for all streams of a process.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What workers connect to.
    address: String,
    runs: Mutex<HashMap<Uuid, Arc<Mutex<Heard>>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What was heard of a run.
#[derive(Debug)]
struct Heard {
    told: mpsc::UnboundedSender<Told>,
    slice: u64,
    /// What each piece of the present slice has told, by the name of its part.
    pieces: HashMap<String, Vec<NewEvent>>,
}

impl Hub {
    /// Listens at this address, at which all workers have to reach it: for one process on one machine `127.0.0.1:0`. With an
    /// address of all interfaces, [`reached_at`](Self::reached_at) says what workers are told.
    ///
    /// Whoever reaches the port and knows a run's token, which only the cluster is told, can add events to its stream; what crosses is
    /// not encrypted. Keep it inside of the cluster's network.
    pub async fn listen(address: &str) -> Result<Self, Error> {
        Self::reached_at(address, None).await
    }

    /// The same; workers connect to `host`, with the port that is listened at.
    pub async fn reached_at(address: &str, host: Option<&str>) -> Result<Self, Error> {
        let failed = |error| Error::Listen { address: address.to_owned(), error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local: SocketAddr = listener.local_addr().map_err(failed)?;
        let address = host.map_or_else(|| local.to_string(), |host| format!("{host}:{}", local.port()));
        Ok(Self(Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| Inner {
            address,
            runs: Mutex::default(),
            accepting: tokio::spawn(accept(listener, inner.clone())),
        })))
    }
}

async fn accept(listener: TcpListener, hub: std::sync::Weak<Inner>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let hub = hub.clone();
        tokio::spawn(async move {
            if let Err(error) = hear(stream, hub).await {
                tracing::debug!(%error, "a worker that told of a run has gone");
            }
        });
    }
}

/// Takes what one piece of a run tells.
async fn hear(stream: TcpStream, hub: std::sync::Weak<Inner>) -> std::io::Result<()> {
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(stream, LINE));
    let mut text = String::new();
    let mut piece: Option<(Arc<Mutex<Heard>>, Piece)> = None;
    loop {
        text.clear();
        lines.get_mut().set_limit(LINE);
        // A worker that dies may leave a part of a line. The next attempt sends that event again.
        let read = lines.read_line(&mut text).await?;
        if read == 0 || (!text.ends_with('\n') && (read as u64) < LINE) {
            return Ok(());
        }
        let line = serde_json::from_str(&text).inspect_err(|error| {
            if let Some((heard, _)) = &piece {
                tracing::warn!(%error, "dropped the events of a worker: a line cannot be read, perhaps because the worker is of another version");
                lock(heard).tell(Told::Lost);
            }
        });
        match (line?, &mut piece) {
            (Line::Open { token, slice, part }, None) => {
                let Some(heard) = hub.upgrade().and_then(|hub| lock(&hub.runs).get(&token).cloned()) else {
                    return Ok(());
                };
                let begun = lock(&heard).begin(slice, serde_json::to_string(&part)?);
                let Some(begun) = begun else { return Ok(()) };
                piece = Some((heard, begun));
            }
            (Line::Event(event), Some((heard, piece))) => lock(heard).event(piece, event),
            (Line::Lost(_), Some((heard, _))) => lock(heard).tell(Told::Lost),
            (Line::End, Some(_)) => return lines.get_mut().get_mut().write_all(b".").await,
            _ => return Ok(()),
        }
    }
}

/// A piece of a run that is heard.
struct Piece {
    slice: u64,
    part: String,
    /// How many events of an earlier try of the piece have been told again, each the same; none once one was another.
    again: Option<usize>,
}

impl Heard {
    /// A piece begins, perhaps for the second time; none if it is one that was over long ago.
    fn begin(&mut self, slice: u64, part: String) -> Option<Piece> {
        if slice < self.slice {
            return None;
        }
        if slice > self.slice {
            self.slice = slice;
            self.pieces.clear();
        }
        let told = self.pieces.entry(part.clone()).or_default();
        Some(Piece { slice, part, again: (!told.is_empty()).then_some(0) })
    }

    fn event(&mut self, piece: &mut Piece, event: NewEvent) {
        if piece.slice != self.slice {
            return;
        }
        let told = self.pieces.entry(piece.part.clone()).or_default();
        if let Some(again) = &mut piece.again {
            if told.get(*again) == Some(&event) {
                *again += 1;
                return;
            }
            let differs = *again < told.len();
            told.truncate(*again);
            piece.again = None;
            if differs {
                self.tell(Told::Lost);
            }
        }
        self.pieces.entry(piece.part.clone()).or_default().push(event.clone());
        self.tell(Told::Event(event));
    }

    fn tell(&self, told: Told) {
        // Whoever listened may have gone.
        let _ = self.told.send(told);
    }
}

impl RemoteGraph {
    /// Returns a request to stream the events of a run, which [`start`](GraphRequest::start) starts.
    ///
    /// Workers send the events straight to the hub. Each event is delivered once, even if its work is repeated and sends it again. If
    /// the repeated work sends other events, such as other tokens of a model, the stream reports [`Told::Lost`] before them. Dropping
    /// the stream does not end the run, which belongs to the cluster.
    pub fn stream(&self, hub: &Hub, input: DynInput) -> GraphRequest<RemoteStreaming> {
        let modes = vec![StreamMode::Updates];
        GraphRequest::new(RemoteStreaming { graph: self.clone(), hub: hub.clone(), input, modes })
    }

    /// The same of the run with this id.
    pub(crate) fn stream_as(
        &self,
        run: Uuid,
        hub: &Hub,
        input: DynInput,
        settings: Settings,
        modes: Vec<StreamMode>,
    ) -> RemoteStream {
        let (sender, told) = mpsc::unbounded_channel();
        let token = Uuid::new_v4();
        let heard = Heard { told: sender, slice: 0, pieces: HashMap::new() };
        lock(&hub.0.runs).insert(token, Arc::new(Mutex::new(heard)));
        let listener = Listener { address: hub.0.address.clone(), token, modes };
        let graph = self.clone();
        let run = tokio::spawn(async move { graph.begin(run, input, settings, Some(listener)).await });
        RemoteStream { told, run, hub: hub.clone(), token, ended: None }
    }
}

/// The kind of a request that streams the events of a run on the cluster: [`RemoteGraph::stream`].
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
                let (told, run) = (mpsc::unbounded_channel().1, tokio::spawn(async { Err(error) }));
                RemoteStream { told, run, hub, token: Uuid::nil(), ended: None }
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
    async fn an_event_that_cannot_be_read_is_reported_as_lost() {
        let hub = Hub::listen("127.0.0.1:0").await.unwrap();
        let (sender, mut told) = mpsc::unbounded_channel();
        let (token, slice) = (Uuid::new_v4(), 1);
        let heard = Heard { told: sender, slice, pieces: HashMap::new() };
        lock(&hub.0.runs).insert(token, Arc::new(Mutex::new(heard)));
        let mut worker = TcpStream::connect(&hub.0.address).await.unwrap();
        let open = serde_json::to_string(&Line::Open { token, slice, part: None }).unwrap();
        let unknown = r#"{"Event":{"run":null,"body":{"type":"usage","data":{}}}}"#;
        worker.write_all(format!("{open}\n{unknown}\n").as_bytes()).await.unwrap();
        assert_eq!(told.recv().await, Some(Told::Lost));
    }
}
