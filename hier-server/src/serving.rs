//! Accepts connections and answers their requests.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::{Request, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::upgrade::{Connection, ConnectionPermit};

/// Time limit for a connection to send the head of its next request. A connection that is slower, or idle, is closed.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Delay after a connection could not be accepted, for example because too many are open.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until the token is cancelled, then finishes the open requests.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, address)) => {
                // Without this option, the second part of a response, such as an event of a stream, waits 40 ms for the
                // acknowledgement of the first part.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "failed to set TCP_NODELAY: responses on this connection will be slow");
                }
                let (router, stopping) = (router.clone(), stopping.clone());
                connections.spawn(async move { answer(TokioIo::new(stream), address, router, stopping).await });
            }
            Err(error) if is_of_client(&error) => {
                tracing::debug!(%error, "a client disconnected before its connection was accepted");
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection; trying again");
                stopping.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
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

async fn answer<C>(connection: C, address: SocketAddr, router: Router, stopping: CancellationToken)
where
    C: Read + Write + Unpin + Send + 'static,
{
    let permit = ConnectionPermit::default();
    let connection = Connection::new(connection, permit.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        request.extensions_mut().insert(permit.clone());
        router.clone().call(request.map(Body::new))
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(connection, service)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopping.cancelled() => {
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
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::{Instant, sleep};

    use super::*;

    fn connected() -> DuplexStream {
        let (client, server) = tokio::io::duplex(1_024);
        let router = Router::new().route("/", get(async || "hello"));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        tokio::spawn(answer(TokioIo::new(server), address, router, CancellationToken::new()));
        client
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_closed() {
        let (mut client, begun) = (connected(), Instant::now());
        client.read_to_end(&mut Vec::new()).await.expect("it ends");
        assert_eq!(begun.elapsed(), HEADER_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_send_their_head_slowly_are_closed() {
        let (mut client, begun) = (connected(), Instant::now());
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").await.expect("it is sent");
        while client.write_all(b"y").await.is_ok() {
            sleep(Duration::from_secs(2)).await;
        }
        assert!(begun.elapsed() <= HEADER_TIMEOUT + Duration::from_secs(4), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_after_their_last_answer() {
        let mut client = connected();
        for _ in 0..3 {
            sleep(HEADER_TIMEOUT / 2).await;
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is sent");
            let mut answer = vec![0; 1_024];
            let read = client.read(&mut answer).await.expect("an answer");
            assert!(answer[..read].starts_with(b"HTTP/1.1 200 OK"));
        }
        let begun = Instant::now();
        client.read_to_end(&mut Vec::new()).await.expect("it ends");
        assert_eq!(begun.elapsed(), HEADER_TIMEOUT);
    }
}
