//! HTTP requests, bounded in bytes and time. Redirects are not followed, since they would send the key and the
//! conversation elsewhere.

use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde_json::Value;

use crate::delay;
use crate::error::ModelFailure;
use crate::secret::redacted_url;

const CONNECT: Duration = Duration::from_secs(10);
/// The maximum size of an answer, in bytes. No model writes that much.
const LARGEST: usize = 64 << 20;
/// The maximum size of an error body that is read, in bytes.
const LARGEST_ERROR: usize = 64 << 10;

/// Builds a client. It accepts no compression, so that a small answer cannot expand into a large one.
pub(crate) fn build_client(timeout: Duration) -> Result<Client, reqwest::Error> {
    let agent = concat!("hier/", env!("CARGO_PKG_VERSION"));
    let client = Client::builder().user_agent(agent).referer(false).redirect(Policy::none());
    client.connect_timeout(CONNECT).timeout(timeout).build()
}

pub(crate) struct RequestTarget {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
}

pub(crate) const JSON: &str = "application/json";

/// Sends JSON, and returns the response if its status is a success.
pub(crate) async fn post_json(client: &Client, to: &RequestTarget, body: Vec<u8>) -> Result<Response, ModelFailure> {
    let request = client.post(&to.url).header(CONTENT_TYPE, JSON).headers(to.headers.clone()).timeout(to.timeout);
    let request = request.body(body);
    let failed = |error: reqwest::Error| {
        let mut failure = ModelFailure::from_transport(&error.without_url(), to.timeout);
        failure.reason = format!("{} ({})", failure.reason, redacted_url(&to.url));
        failure
    };
    let answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status.is_redirection() {
        let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok()).unwrap_or("another address");
        let reason = format!("HTTP status {status}: the server has moved to {place}: use that URL");
        return Err(ModelFailure::refused(reason));
    }
    let wait = delay::requested_delay(answer.headers(), SystemTime::now());
    Err(ModelFailure::from_status(status, &read_error_body(answer).await, wait))
}

pub(crate) fn media_type(answer: &Response) -> String {
    let header = answer.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the chunks of a body. Fails if the body is too large.
pub(crate) fn body_chunks(
    answer: Response,
    timeout: Duration,
) -> impl Stream<Item = Result<bytes::Bytes, ModelFailure>> + Send + 'static {
    let mut read = 0_usize;
    answer.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| ModelFailure::from_transport(&error.without_url(), timeout))?;
        read = read.saturating_add(chunk.len());
        if read > LARGEST {
            return Err(ModelFailure::bad_answer(format!("the response is longer than {} MB", LARGEST >> 20)));
        }
        Ok(chunk)
    })
}

pub(crate) async fn read_json(answer: Response, timeout: Duration) -> Result<Value, ModelFailure> {
    let media_type = media_type(&answer);
    let mut chunks = std::pin::pin!(body_chunks(answer, timeout));
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
    }
    serde_json::from_slice(&body).map_err(|error| {
        let media_type = if media_type.is_empty() { "no type".to_owned() } else { format!("the type `{media_type}`") };
        ModelFailure::bad_answer(format!(
            "the response has {media_type} and is not JSON: {error}; check the URL of the server"
        ))
    })
}

/// Reads an error body up to [`LARGEST_ERROR`].
async fn read_error_body(answer: Response) -> String {
    let mut chunks = std::pin::pin!(answer.bytes_stream());
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = chunks.next().await {
        body.extend_from_slice(&chunk[..chunk.len().min(LARGEST_ERROR - body.len())]);
        if body.len() >= LARGEST_ERROR {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
