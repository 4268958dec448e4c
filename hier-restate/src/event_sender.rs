//! Sends the events of a slice directly to the client and not through Restate's journals. If the client does not
//! receive events fast enough, the sender drops events and reports them as lost, so that the run does not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hier_core::drive::PartialStep;
use hier_core::graph::DynEventSink;
use hier_core::runs::NewEvent;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use crate::wire::StreamListener;

/// The maximum number of events that wait to be sent.
const WAITING: usize = 4_096;
/// The time within which a listener must respond.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ListenerLine {
    Open {
        token: Uuid,
        slice: u64,
        part: Option<PartialStep>,
    },
    Event(NewEvent),
    Lost(u64),
    /// Ends the part. The listener responds with one byte.
    End,
}

pub(crate) struct EventSender {
    events: mpsc::Sender<NewEvent>,
    lost: Arc<AtomicU64>,
    sending: Option<JoinHandle<()>>,
}

impl EventSender {
    /// Connects to the listener. If that fails, all events are lost.
    pub(crate) async fn connect(listener: &StreamListener, slice: u64, part: Option<&PartialStep>) -> Self {
        let (events, waiting) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let open = ListenerLine::Open { token: listener.token, slice, part: part.cloned() };
        let sending = match timeout(PATIENCE, TcpStream::connect(&listener.address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                Some(tokio::spawn(send(stream, open, waiting, lost.clone())))
            }
            Ok(Err(error)) => {
                tracing::debug!(address = listener.address, %error, "cannot reach the listener of a run");
                None
            }
            Err(_) => None,
        };
        Self { events, lost, sending }
    }

    pub(crate) fn sink(&self) -> DynEventSink {
        let (events, lost) = (self.events.clone(), self.lost.clone());
        Arc::new(move |event| {
            if events.try_send(event).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Waits until the listener has received everything, so that the events of the next slice follow.
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

async fn send(mut stream: TcpStream, open: ListenerLine, mut waiting: mpsc::Receiver<NewEvent>, lost: Arc<AtomicU64>) {
    let sent = async {
        write(&mut stream, &open).await?;
        while let Some(event) = waiting.recv().await {
            write(&mut stream, &ListenerLine::Event(event)).await?;
        }
        match lost.load(Ordering::Relaxed) {
            0 => {}
            lost => write(&mut stream, &ListenerLine::Lost(lost)).await?,
        }
        write(&mut stream, &ListenerLine::End).await?;
        stream.read_u8().await
    };
    if let Err(error) = sent.await {
        tracing::debug!(%error, "lost the connection to the listener of a run");
    }
}

async fn write(stream: &mut TcpStream, line: &ListenerLine) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    stream.write_all(&bytes).await
}
