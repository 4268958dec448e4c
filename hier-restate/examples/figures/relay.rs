//! Passes bytes on between a server and a worker, and counts them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hier_restate::loopback;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failed;

/// A relay in front of a worker.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    bytes: Arc<AtomicU64>,
}

impl Relay {
    pub(crate) async fn to(worker: SocketAddr) -> Result<Self, Failed> {
        let (listener, address) = loopback().await?;
        let bytes: Arc<AtomicU64> = Arc::default();
        let relay = Self { address, bytes: bytes.clone() };
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    let to = TcpStream::connect(worker).await?;
                    from.set_nodelay(true)?;
                    to.set_nodelay(true)?;
                    let ((server_in, server_out), (worker_in, worker_out)) = (from.into_split(), to.into_split());
                    let there = pass(server_in, worker_out, &bytes);
                    tokio::try_join!(there, pass(worker_in, server_out, &bytes)).map(drop)
                });
            }
        });
        Ok(relay)
    }

    /// The number of bytes that have passed in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes: &AtomicU64,
) -> std::io::Result<()> {
    let mut some = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut some).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        bytes.fetch_add(read as u64, Ordering::Relaxed);
        to.write_all(&some[..read]).await?;
    }
}
