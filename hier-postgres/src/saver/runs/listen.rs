//! Receives the notices of other processes, on a separate connection.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hier_runs::ChangeNotifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use super::super::session::{ListenConfig, PostgresSession};
use super::notices::{channel, deliver_notice};

/// The time between attempts to connect. Meanwhile, callers that wait for changes poll.
const PAUSE: Duration = Duration::from_secs(1);

/// A task that listens until this value is dropped.
pub(in super::super) struct NotifyListener(JoinHandle<()>);

impl Drop for NotifyListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Delivery {
    channel: String,
    tag: String,
    bell: Arc<ChangeNotifier>,
}

impl NotifyListener {
    /// Starts to listen. Returns `None` outside a tokio runtime.
    pub(super) fn start(session: &PostgresSession, bell: Arc<ChangeNotifier>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let config = session.listen_config.clone();
        let delivery = Delivery { channel: channel(session), tag: session.tag.clone(), bell };
        Some(Self(runtime.spawn(async move {
            loop {
                // A pooler may reject `listen`. Then callers only poll.
                let _ = listen_once(&config, &delivery).await;
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

async fn listen_once(config: &ListenConfig, delivery: &Delivery) -> Result<(), tokio_postgres::Error> {
    #[cfg(feature = "tls")]
    if let Some(roots) = &config.roots {
        // The pool has created a connector from the same roots, so this does not fail.
        let Ok(tls) = super::super::tls::connector(roots, &config.place) else { return Ok(()) };
        let (client, connection) = config.config.connect(tls).await?;
        return receive_notices(client, connection, delivery).await;
    }
    let (client, connection) = config.config.connect(NoTls).await?;
    receive_notices(client, connection, delivery).await
}

async fn receive_notices<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    delivery: &Delivery,
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Delivery { channel, tag, bell } = delivery;
    let command = format!("listen \"{channel}\"");
    let mut requesting = pin!(client.batch_execute(&command));
    let mut is_listening = false;
    loop {
        let message = std::future::poll_fn(|context| {
            if !is_listening && let Poll::Ready(answer) = requesting.as_mut().poll(context) {
                is_listening = true;
                match answer {
                    // This process has not received earlier notices.
                    Ok(()) => bell.notify_all(),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            connection.poll_message(context)
        });
        match message.await {
            Some(Ok(AsyncMessage::Notification(notification))) => deliver_notice(notification.payload(), tag, bell),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }
}
