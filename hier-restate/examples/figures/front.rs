//! A load balancer in front of workers, as small as it can be: each request goes to the next worker, tasks counted by themselves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_restate::loopback;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::Failed;

struct Behind {
    workers: Vec<SendRequest<Incoming>>,
    tasks: AtomicUsize,
    others: AtomicUsize,
}

impl Behind {
    fn next(&self, path: &str) -> SendRequest<Incoming> {
        let turn = if path.contains(".task/") { &self.tasks } else { &self.others };
        self.workers[turn.fetch_add(1, Ordering::Relaxed) % self.workers.len()].clone()
    }
}

/// The number of connections of each worker. A connection carries 200 requests, and a run that waits for its end is one of them.
const CONNECTIONS: usize = 16;

/// Serves these workers at an address of the loopback interface until the program ends.
pub(crate) async fn front(workers: &[SocketAddr]) -> Result<SocketAddr, Failed> {
    let mut connected = Vec::new();
    // The first connection of each worker, then the second of each: a round-robin over this list alternates between workers.
    for worker in std::iter::repeat_n(workers, CONNECTIONS).flatten() {
        let stream = TcpStream::connect(worker).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        connected.push(send);
    }
    let behind = Arc::new(Behind { workers: connected, tasks: AtomicUsize::default(), others: AtomicUsize::default() });
    let (listener, address) = loopback().await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let behind = behind.clone();
            let _ = stream.set_nodelay(true);
            let serve = service_fn(move |request: hyper::Request<Incoming>| {
                let mut worker = behind.next(request.uri().path());
                async move { worker.send_request(request).await }
            });
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), serve));
        }
    });
    Ok(address)
}
