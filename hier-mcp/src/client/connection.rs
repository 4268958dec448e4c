//! A connection to a server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService};
#[cfg(feature = "oauth")]
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::timeout;

use super::child::ChildTransport;
use super::handler::ServerRequestHandler;
use super::http::{SessionHttp, http};
use super::options::{ClientOptions, Protocol, ServerLocation};
use crate::error::{McpError, causes, clean, has_ended_session};
#[cfg(feature = "oauth")]
use crate::error::{is_forgotten, missing_scope};

/// The size of the program's standard error output that is kept for errors, in bytes.
const TAIL: usize = 2 * 1024;

/// An open connection. Dropping it closes it, and ends the program.
pub(crate) struct ServerConnection {
    service: RunningService<RoleClient, ServerRequestHandler>,
    tail: Arc<StderrTail>,
    /// True if the tools may have changed: over a new connection, and after a report of the server.
    pub(crate) stale: Arc<AtomicBool>,
    /// True if the server no longer has the session of this connection, or does not respond any more.
    has_ended: AtomicBool,
    /// True if the server reports changes of its tools.
    reports_changes: Arc<AtomicBool>,
    listener: Option<tokio::task::AbortHandle>,
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl ServerConnection {
    pub(crate) async fn open(name: &str, location: &ServerLocation, options: &ClientOptions) -> Result<Self, McpError> {
        let failed = |reason: String| McpError::Connect { server: name.to_owned(), reason: clean(&reason) };
        let tail = Arc::new(StderrTail::default());
        let stale = Arc::new(AtomicBool::new(true));
        let handler = ServerRequestHandler::new(options.clone(), name, stale.clone());
        let lifecycle = lifecycle(options.protocol);
        let opened = async {
            match location {
                ServerLocation::Child { .. } => {
                    let (transport, errors) =
                        ChildTransport::start(location).map_err(|error| failed(error.to_string()))?;
                    let reading = errors.map(|errors| tokio::spawn(read_tail(errors, tail.clone(), name.to_owned())));
                    match handler.serve_with_lifecycle(transport, lifecycle).await {
                        Ok(service) => Ok(service),
                        Err(error) => {
                            // The program has ended. Its last output states the reason.
                            if let Some(reading) = reading {
                                let _ = timeout(LAST_LINES, reading).await;
                            }
                            Err(failed(describe_error(&error, &tail)))
                        }
                    }
                }
                #[cfg(feature = "oauth")]
                ServerLocation::Http { url, headers, auth: Some(auth), .. } => {
                    let (client, config) = http(url, None, headers, options).map_err(failed)?;
                    let client = auth.authorized(client).await?;
                    let transport = StreamableHttpClientTransport::with_client(SessionHttp(client), config);
                    match handler.serve_with_lifecycle(transport, lifecycle).await {
                        Ok(service) => Ok(service),
                        // The server rejected the token, or the authorization server rejected its renewal.
                        Err(error) if error.is_authorization_required() => Err(auth.missing()),
                        Err(error) if transport_error(&error).is_some_and(is_forgotten) => {
                            Err(McpError::of_forgotten_client(name.to_owned()))
                        }
                        Err(error) => match transport_error(&error).and_then(missing_scope) {
                            Some(scope) => {
                                auth.require(&scope).await;
                                Err(McpError::of_missing_scope(name.to_owned(), scope))
                            }
                            None => Err(failed(describe_error(&error, &tail))),
                        },
                    }
                }
                ServerLocation::Http { url, bearer, headers, .. } => {
                    let (client, config) = http(url, bearer.as_deref(), headers, options).map_err(failed)?;
                    let transport = StreamableHttpClientTransport::with_client(SessionHttp(client), config);
                    let opened = handler.serve_with_lifecycle(transport, lifecycle).await;
                    opened.map_err(|error| failed(describe_error(&error, &tail)))
                }
            }
        };
        let late = || {
            failed(format!(
                "it did not start within {} ms, the limit of `timeout`{}",
                options.timeout.as_millis(),
                tail.last_output()
            ))
        };
        let service = timeout(options.timeout, opened).await.map_err(|_| late())??;
        let has_ended = AtomicBool::new(false);
        let mut connection = Self { service, tail, stale, has_ended, reports_changes: Arc::default(), listener: None };
        connection.subscribe(options.timeout);
        Ok(connection)
    }

    fn subscribe(&mut self, patience: Duration) {
        let Some(info) = self.service.peer().peer_info() else { return };
        let tools = info.capabilities.tools.as_ref();
        if tools.and_then(|tools| tools.list_changed) != Some(true) {
            return;
        }
        if info.protocol_version.has_initialize() {
            self.reports_changes.store(true, Ordering::Relaxed);
            return;
        }
        let (peer, stale, reports_changes) =
            (self.service.peer().clone(), self.stale.clone(), self.reports_changes.clone());
        let listening = tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(Ok(mut heard)) = timeout(patience, peer.listen(filter)).await else { return };
            // The tools may have changed before the subscription.
            stale.store(true, Ordering::Relaxed);
            reports_changes.store(true, Ordering::Relaxed);
            while let Ok(Some(_)) = heard.next().await {
                stale.store(true, Ordering::Relaxed);
            }
            reports_changes.store(false, Ordering::Relaxed);
        });
        self.listener = Some(listening.abort_handle());
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(crate) fn handler(&self) -> &ServerRequestHandler {
        self.service.service()
    }

    pub(crate) fn is_open(&self) -> bool {
        let has_ended = self.has_ended.load(Ordering::Relaxed);
        !has_ended && !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Ends the connection if the server does not respond to a simple request.
    pub(crate) async fn check(&self, patience: Duration) {
        if timeout(patience, self.peer().list_tools(None)).await.is_err() {
            self.has_ended.store(true, Ordering::Relaxed);
        }
    }

    /// Converts the error of a request over this connection.
    pub(crate) fn error(&self, error: ServiceError, server: &str, request: &str) -> McpError {
        if has_ended_session(&error) {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        McpError::from_service_error(error, server, request, || self.tail.last_output())
    }

    pub(crate) fn offers_tools(&self) -> bool {
        self.service.peer().peer_info().is_none_or(|info| info.capabilities.tools.is_some())
    }

    pub(crate) fn reports_changes(&self) -> bool {
        self.reports_changes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_old(&self) -> bool {
        self.service.peer().peer_info().is_some_and(|info| info.protocol_version.has_initialize())
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

#[cfg(feature = "oauth")]
fn transport_error(error: &ClientInitializeError) -> Option<&DynamicTransportError> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => transport_error(fallback),
        _ => None,
    }
}

fn describe_error(error: &ClientInitializeError, tail: &StderrTail) -> String {
    format!("{}{}", causes(error), tail.last_output())
}

/// The maximum wait for the last output of a program that has ended.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The end of a program's standard error output.
#[derive(Default)]
struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    fn put(&self, line: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(line.bytes().chain(*b"\n"));
        let over = kept.len().saturating_sub(TAIL);
        kept.drain(..over);
    }

    /// Returns the program's last standard error output, as the end of a sentence.
    fn last_output(&self) -> String {
        let kept: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept);
        let text = clean(text.trim());
        if text.is_empty() { String::new() } else { format!("; its last output: {text}") }
    }
}

/// Reads lines until the program ends. Long lines are read in pieces.
async fn read_tail(errors: impl AsyncRead + Unpin, tail: Arc<StderrTail>, server: String) {
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
        // Not at `debug`: the output may contain data of a call that a layer redacts.
        tracing::trace!(server, line, "an MCP server wrote to its standard error");
        tail.put(&line);
    }
}
