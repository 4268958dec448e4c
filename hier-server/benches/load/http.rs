//! The part of HTTP/1.1 that a load generator needs. It must cost little compared with the server.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection that stays open.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(2048, stream), line: String::new() })
    }

    /// Sends a request. The head and the body of the answer follow.
    async fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await
    }

    async fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        if self.stream.read_line(&mut self.line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.line.trim_end())
    }

    /// Reads the head of a successful answer, and returns the length of its body, or none if it comes in chunks.
    async fn head(&mut self) -> io::Result<Option<usize>> {
        let status = self.line().await?;
        if !status.starts_with("HTTP/1.1 200") {
            return Err(wrong(status));
        }
        let mut length = None;
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(length);
            }
            if let Some(given) = line.strip_prefix("content-length:") {
                length = Some(given.trim().parse().map_err(|_| wrong(&line))?);
            }
        }
    }

    /// Reads the next chunk of a body. Returns none at its end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line().await?;
        let size = usize::from_str_radix(line, 16).map_err(|_| wrong(line))?;
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes).await?;
        bytes.truncate(size);
        Ok((size > 0).then_some(bytes))
    }

    /// Sends a request and returns the whole body of its answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> io::Result<Vec<u8>> {
        self.send("POST", path, "", body).await?;
        let mut whole = Vec::new();
        match self.head().await? {
            Some(length) => {
                whole.resize(length, 0);
                self.stream.read_exact(&mut whole).await?;
            }
            None => {
                while let Some(chunk) = self.chunk().await? {
                    whole.extend(chunk);
                }
            }
        }
        Ok(whole)
    }

    /// Opens a stream of events; [`Self::chunk`] reads it.
    pub(crate) async fn stream(&mut self, method: &str, path: &str, headers: &str, body: &str) -> io::Result<()> {
        self.send(method, path, headers, body).await?;
        match self.head().await? {
            None => Ok(()),
            Some(_) => Err(wrong("a stream of events has no length")),
        }
    }
}
