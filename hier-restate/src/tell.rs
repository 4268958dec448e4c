//! Sends the events of a piece of a run to whoever listens: straight, past all journals. It never holds the run up for long; what
//! cannot be sent is lost, and told as lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hier_core::drive::PartialStep;
use hier_core::graph::DynTell;
use hier_core::runs::NewEvent;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use crate::wire::Listener;

/// How many events may wait to be sent.
const WAITING: usize = 4_096;
/// How long a listener may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line to a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A piece of the run begins.
    Open { token: Uuid, slice: u64, part: Option<PartialStep> },
    /// Something happened.
    Event(NewEvent),
    /// So many events could not be sent.
    Lost(u64),
    /// The piece has ended. The listener answers with one byte.
    End,
}

/// Sends the events of one piece.
pub(crate) struct Teller {
    events: mpsc::Sender<NewEvent>,
    lost: Arc<AtomicU64>,
    sending: Option<JoinHandle<()>>,
}

impl Teller {
    /// Connects to the listener. If that fails all events are lost.
    pub(crate) async fn connect(listener: &Listener, slice: u64, part: Option<&PartialStep>) -> Self {
        let (events, waiting) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let open = Line::Open { token: listener.token, slice, part: part.cloned() };
        let sending = match timeout(PATIENCE, TcpStream::connect(&listener.address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                Some(tokio::spawn(send(stream, open, waiting, lost.clone())))
            }
            Ok(Err(error)) => {
                tracing::debug!(address = listener.address, %error, "the listener of a run cannot be reached");
                None
            }
            Err(_) => None,
        };
        Self { events, lost, sending }
    }

    /// What takes the events.
    pub(crate) fn tell(&self) -> DynTell {
        let (events, lost) = (self.events.clone(), self.lost.clone());
        Arc::new(move |event| {
            if events.try_send(event).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Waits until the listener has everything, so that what the next piece tells comes after it.
    pub(crate) async fn end(self) {
        let Self { events, sending, .. } = self;
        drop(events);
        if let Some(sending) = sending {
            let stop = sending.abort_handle();
            if timeout(PATIENCE, sending).await.is_err() {
                stop.abort();
            }
        }
    }
}

async fn send(mut stream: TcpStream, open: Line, mut waiting: mpsc::Receiver<NewEvent>, lost: Arc<AtomicU64>) {
    let sent = async {
        write(&mut stream, &open).await?;
        while let Some(event) = waiting.recv().await {
            write(&mut stream, &Line::Event(event)).await?;
        }
        match lost.load(Ordering::Relaxed) {
            0 => {}
            lost => write(&mut stream, &Line::Lost(lost)).await?,
        }
        write(&mut stream, &Line::End).await?;
        stream.read_u8().await
    };
    if let Err(error) = sent.await {
        tracing::debug!(%error, "the listener of a run has gone");
    }
}

async fn write(stream: &mut TcpStream, line: &Line) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    stream.write_all(&bytes).await
}
