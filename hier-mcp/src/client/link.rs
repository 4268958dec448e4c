//! A connection to a server.

use std::collections::{HashMap, VecDeque};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::timeout;

use super::child::ChildTransport;
use super::handler::Handler;
use super::options::{Options, Place, Protocol};
use crate::error::{McpError, clean};

/// How much of what a program writes to its standard error is kept for errors, in bytes.
const TAIL: usize = 2 * 1024;

/// A live connection. Dropped, it ends, and with it the program that it speaks to.
pub(crate) struct Link {
    service: RunningService<RoleClient, Handler>,
    tail: Arc<Tail>,
    /// Told when the server says that its tools are others now.
    pub(crate) stale: Arc<AtomicBool>,
    /// Whether the server says so.
    tells: Arc<AtomicBool>,
    listener: Option<tokio::task::AbortHandle>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl Link {
    /// Connects.
    pub(crate) async fn open(name: &str, place: &Place, options: &Options) -> Result<Self, McpError> {
        let failed = |reason: String| McpError::Connect { server: name.to_owned(), reason: clean(&reason) };
        let tail = Arc::new(Tail::default());
        let stale = Arc::new(AtomicBool::new(false));
        let handler = Handler::new(options.clone(), name, stale.clone());
        let lifecycle = lifecycle(options.protocol);
        let opened = async {
            match place {
                Place::Child { .. } => {
                    let (transport, errors) =
                        ChildTransport::start(place).map_err(|error| failed(error.to_string()))?;
                    let reading = errors.map(|errors| tokio::spawn(read_tail(errors, tail.clone(), name.to_owned())));
                    match handler.serve_with_lifecycle(transport, lifecycle).await {
                        Ok(service) => Ok(service),
                        Err(error) => {
                            // The program has ended, and its standard error says why.
                            if let Some(reading) = reading {
                                let _ = timeout(LAST_LINES, reading).await;
                            }
                            Err(failed(why(&error, &tail)))
                        }
                    }
                }
                Place::Http { url, bearer, headers } => {
                    let transport = http(url, bearer.as_deref(), headers, options).map_err(failed)?;
                    handler.serve_with_lifecycle(transport, lifecycle).await.map_err(|error| failed(why(&error, &tail)))
                }
            }
        };
        let late = || failed(format!("it was not there within {} ms{}", options.timeout.as_millis(), tail.said()));
        let service = timeout(options.timeout, opened).await.map_err(|_| late())??;
        let mut link = Self { service, tail, stale, tells: Arc::default(), listener: None };
        link.listen(options.timeout);
        Ok(link)
    }

    /// Hears of changes of the tools, if the server tells of them.
    fn listen(&mut self, patience: Duration) {
        let Some(info) = self.service.peer().peer_info() else { return };
        let tools = info.capabilities.tools.as_ref();
        if tools.and_then(|tools| tools.list_changed) != Some(true) {
            return;
        }
        if info.protocol_version.has_initialize() {
            self.tells.store(true, Ordering::Relaxed);
            return;
        }
        let (peer, stale, tells) = (self.service.peer().clone(), self.stale.clone(), self.tells.clone());
        let listening = tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(Ok(mut heard)) = timeout(patience, peer.listen(filter)).await else { return };
            // What changed before is not known.
            stale.store(true, Ordering::Relaxed);
            tells.store(true, Ordering::Relaxed);
            while let Ok(Some(_)) = heard.next().await {
                stale.store(true, Ordering::Relaxed);
            }
            tells.store(false, Ordering::Relaxed);
        });
        self.listener = Some(listening.abort_handle());
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(crate) fn handler(&self) -> &Handler {
        self.service.service()
    }

    /// Whether it can still be used.
    pub(crate) fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Whether the server says when its tools change.
    pub(crate) fn tells(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }

    /// Whether the server speaks a protocol in which it asks in the middle of a call.
    pub(crate) fn is_old(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| info.protocol_version.has_initialize())
    }

    /// What the program wrote to its standard error at last, as the end of a sentence.
    pub(crate) fn said(&self) -> String {
        self.tail.said()
    }
}

fn lifecycle(protocol: Protocol) -> ClientLifecycleMode {
    let new = vec![ProtocolVersion::V_2026_07_28];
    match protocol {
        Protocol::Auto => ClientLifecycleMode::Auto {
            preferred_versions: new,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Protocol::Stateless => ClientLifecycleMode::Discover { preferred_versions: new },
        Protocol::Initialize => ClientLifecycleMode::Initialize,
    }
}

fn why(error: &ClientInitializeError, tail: &Tail) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    format!("{text}{}", tail.said())
}

/// What is spoken over HTTP: bounded, and never to another host than the one that was named.
fn http(
    url: &str,
    bearer: Option<&str>,
    headers: &[(String, String)],
    options: &Options,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut given = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::from_str(name).map_err(|error| format!("the header `{name}`: {error}"))?;
        // The value may be a secret.
        let mut value =
            HeaderValue::from_str(value).map_err(|_| format!("the value of the header `{name}` is none"))?;
        value.set_sensitive(true);
        given.insert(header, value);
    }
    let client = reqwest::Client::builder()
        .connect_timeout(options.timeout)
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::custom(|attempt| {
            let keeps = matches!(attempt.status().as_u16(), 307 | 308);
            let first = attempt.previous().first();
            let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
            if keeps && same && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
        }))
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(given)
        .max_sse_event_size(options.max_message)
        .max_json_response_size(options.max_message)
        .reinit_on_expired_session(false);
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The longest wait for the last lines of a program that has ended.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The end of what a program writes to its standard error.
#[derive(Default)]
struct Tail(Mutex<VecDeque<u8>>);

impl Tail {
    fn put(&self, line: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(line.bytes().chain(*b"\n"));
        let over = kept.len().saturating_sub(TAIL);
        kept.drain(..over);
    }

    fn said(&self) -> String {
        let kept: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept);
        let text = clean(text.trim());
        if text.is_empty() { String::new() } else { format!("; it said at last: {text}") }
    }
}

/// Reads lines until the program ends; what has no end of a line is read in pieces.
async fn read_tail(errors: impl AsyncRead + Unpin, tail: Arc<Tail>, server: String) {
    let mut errors = BufReader::with_capacity(TAIL, errors);
    loop {
        let Ok(read) = errors.fill_buf().await else { return };
        if read.is_empty() {
            return;
        }
        let end = read.iter().position(|byte| *byte == b'\n').map_or(read.len(), |end| end + 1);
        let line = String::from_utf8_lossy(&read[..end]).trim_end().to_owned();
        errors.consume(end);
        let line = clean(&line);
        // Not at `debug`: what a server writes about a call may have what a layer redacts.
        tracing::trace!(server, line, "an MCP server wrote to its standard error");
        tail.put(&line);
    }
}
