//! The way to a server and back: one request, bounded in bytes and time. Never follows a redirect, which would take the
//! key and the conversation elsewhere.

use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde_json::Value;

use crate::delay;
use crate::error::Failure;
use crate::secret::shown;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer, in bytes: the longest that a model writes, many times over.
const LARGEST: usize = 64 << 20;
/// What is read of an answer that says what went wrong, in bytes.
const LARGEST_ERROR: usize = 64 << 10;

/// A client. It asks for no compression, so that a small answer cannot become a large one.
pub(crate) fn client(timeout: Duration) -> Result<Client, reqwest::Error> {
    let agent = concat!("hier/", env!("CARGO_PKG_VERSION"));
    let client = Client::builder().user_agent(agent).referer(false).redirect(Policy::none());
    client.connect_timeout(CONNECT).timeout(timeout).build()
}

/// Where a request goes, and with what.
pub(crate) struct Destination {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    /// How long the answer may take; told in errors.
    pub(crate) timeout: Duration,
}

/// Sends a request, and gives the answer if its status is a success.
pub(crate) async fn send(client: &Client, to: &Destination, body: &Value) -> Result<Response, Failure> {
    let request = client.post(&to.url).json(body).headers(to.headers.clone());
    let failed = |error: reqwest::Error| {
        let mut failure = Failure::transport(&error.without_url(), to.timeout);
        failure.reason = format!("{} ({})", failure.reason, shown(&to.url));
        failure
    };
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status.is_redirection() {
        let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok()).unwrap_or("another address");
        let reason = format!("HTTP status {status}: the server has moved to {place}: give that address");
        return Err(Failure::refused(reason));
    }
    let wait = delay::of(answer.headers(), SystemTime::now());
    Err(Failure::status(status, &beginning(answer).await, wait))
}

/// The media type of an answer, without its parameters.
pub(crate) fn media_type(answer: &Response) -> String {
    let header = answer.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The pieces of a body. An error ends it: of the transport, or where it is too large.
pub(crate) fn pieces(
    answer: Response,
    timeout: Duration,
) -> impl Stream<Item = Result<bytes::Bytes, Failure>> + Send + 'static {
    let mut read = 0_usize;
    answer.bytes_stream().map(move |piece| {
        let piece = piece.map_err(|error| Failure::transport(&error.without_url(), timeout))?;
        read = read.saturating_add(piece.len());
        if read > LARGEST {
            return Err(Failure::bad_answer(format!("it is longer than {} MB", LARGEST >> 20)));
        }
        Ok(piece)
    })
}

/// A whole body, as JSON.
pub(crate) async fn json(answer: Response, timeout: Duration) -> Result<Value, Failure> {
    let media_type = media_type(&answer);
    let mut pieces = std::pin::pin!(pieces(answer, timeout));
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece?);
    }
    serde_json::from_slice(&body).map_err(|error| {
        let media_type = if media_type.is_empty() { "no type".to_owned() } else { format!("`{media_type}`") };
        Failure::bad_answer(format!("it is of {media_type} and no JSON: {error}"))
    })
}

/// The beginning of a body, as text: as much as an error may repeat.
async fn beginning(answer: Response) -> String {
    let mut pieces = std::pin::pin!(answer.bytes_stream());
    let mut body = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        body.extend_from_slice(&piece[..piece.len().min(LARGEST_ERROR - body.len())]);
        if body.len() >= LARGEST_ERROR {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
