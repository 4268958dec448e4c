//! Accepts connections, and closes those that do not send a request.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::{Request, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

/// Time limit for a connection to send the head of its next request. A connection that is slower, or idle, is closed.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Delay after a connection could not be accepted, for example because too many are open.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until the token is cancelled, then finishes the open requests.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                // With Nagle's algorithm, each event would wait 40 ms for the acknowledgement of the previous one.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "failed to set TCP_NODELAY: responses on this connection will be slow");
                }
                connections.spawn(answer(TokioIo::new(stream), router.clone(), stop.clone()));
            }
            Err(error) if is_of_client(&error) => {
                tracing::debug!(%error, "a client disconnected before its connection was accepted");
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection; trying again");
                stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Returns true if an error concerns a single connection, and not the listener.
fn is_of_client(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

async fn answer<C>(connection: C, router: Router, stop: CancellationToken)
where
    C: Read + Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(connection, service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_whole_head_are_closed() {
        for sent in ["", "POST /mcp HTTP/1.1\r\nhost: x\r\nx-slow: "] {
            let (mut client, server) = tokio::io::duplex(1_024);
            let begun = Instant::now();
            tokio::spawn(answer(TokioIo::new(server), Router::new(), CancellationToken::new()));
            client.write_all(sent.as_bytes()).await.expect("it is sent");
            client.read_to_end(&mut Vec::new()).await.expect("it ends");
            assert_eq!(begun.elapsed(), HEADER_TIMEOUT, "{sent}");
        }
    }
}
