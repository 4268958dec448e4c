//! Hears what other processes change: a connection of its own, on which the server notifies.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hier_checkpoint::runs::ChangeNotifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};

use super::super::address::Roots;
use super::super::session::Session;
use super::channel;
use super::tell::hear as hear_notice;

/// How long to wait before the server is reached again. Meanwhile whoever waits looks now and then.
const PAUSE: Duration = Duration::from_secs(1);

/// How the server is reached for listening.
pub(in super::super) struct Line {
    pub(in super::super) config: Config,
    pub(in super::super) roots: Option<Roots>,
    #[cfg(feature = "tls")]
    pub(in super::super) place: String,
}

/// Listens until it is dropped.
pub(in super::super) struct Ear(JoinHandle<()>);

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ear {
    /// Begins to listen, if there is a runtime.
    pub(super) fn open(line: Arc<Line>, session: &Session, bell: Arc<ChangeNotifier>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let (channel, tag) = (channel(session), session.tag.clone());
        Some(Self(runtime.spawn(async move {
            loop {
                // A pooler may refuse it: then looking now and then is all there is.
                let _ = listen(&line, (&channel, &tag), &bell).await;
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

/// Listens until the connection is lost.
async fn listen(line: &Line, channel: (&str, &str), bell: &ChangeNotifier) -> Result<(), tokio_postgres::Error> {
    #[cfg(feature = "tls")]
    if let Some(roots) = &line.roots {
        // It could be made when the pool was.
        let Ok(tls) = super::super::tls::connector(roots, &line.place) else { return Ok(()) };
        let (client, connection) = line.config.connect(tls).await?;
        return hear(client, connection, channel, bell).await;
    }
    let (client, connection) = line.config.connect(NoTls).await?;
    hear(client, connection, channel, bell).await
}

async fn hear<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    (channel, tag): (&str, &str),
    bell: &ChangeNotifier,
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let command = format!("listen \"{channel}\"");
    let mut asking = pin!(client.batch_execute(&command));
    let mut asked = false;
    loop {
        let message = std::future::poll_fn(|context| {
            if !asked && let Poll::Ready(answer) = asking.as_mut().poll(context) {
                asked = true;
                match answer {
                    // What changed before it listened was not heard.
                    Ok(()) => bell.notify_all(),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            connection.poll_message(context)
        });
        match message.await {
            Some(Ok(AsyncMessage::Notification(notification))) => hear_notice(notification.payload(), tag, bell),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }
}
