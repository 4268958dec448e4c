//! Graphs as the tools of a server.

mod asked;
mod calls;
mod handler;
mod progress;
mod seal;
mod served;
mod sessions;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use hier_core::CancellationToken;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::{CompiledGraph, DynGraph};
use hier_core::state::Values;
use rmcp::ServiceExt;
use rmcp::task_manager::TaskManager;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::calls::Calls;
use self::handler::Handler;
use self::served::Served;
use self::sessions::{Sessions, guard};
use crate::error::McpError;

pub use self::seal::SealKey;

/// Serves graphs as tools.
///
/// A graph that holds a conversation takes a `message` and returns the model's last one; any other takes and returns values of its
/// channels. What its nodes `emit` as `{"progress": …, "total": …, "message": …}` reaches clients that ask for progress; for others each
/// superstep is one.
///
/// An interrupt is a question to the client (`InputRequiredResult`), with the thread sealed in `requestState`: it is encrypted, of that tool
/// alone, and lasts a day unless [said](Self::questions_last). What was answered cannot be answered again. An older client is asked while
/// its call waits.
///
/// A call whose client goes away, or cancels it, is cancelled. A graph that is [`long`](Self::long) runs as a task, for clients that
/// know tasks: they ask how far it is, answer it, and cancel it.
///
/// ```no_run
/// use hier_agents::prelude::*;
/// use hier_mcp::Server;
///
/// graph! {
///     /// Answers customers.
///     Desk<BaseState> = Agent { system: "You answer customers." }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), hier_mcp::McpError> {
/// # let context = BaseContext::default();
/// Server::new().graph("desk", Desk::compile(), context).serve_stdio().await
/// # }
/// ```
#[must_use = "a server does nothing until it serves"]
pub struct Server {
    graphs: BTreeMap<String, Served>,
    saver: Arc<dyn Checkpointer>,
    key: Option<SealKey>,
    lasts: Duration,
    calls: usize,
    name: String,
    bearer: Option<String>,
    open_to_all: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("graphs", &self.graphs.keys()).finish_non_exhaustive()
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// A server without graphs, whose threads are in memory.
    pub fn new() -> Self {
        Self {
            graphs: BTreeMap::new(),
            saver: Arc::new(MemorySaver::new()),
            key: None,
            lasts: Duration::from_hours(24),
            calls: 100,
            name: "hier".to_owned(),
            bearer: None,
            open_to_all: false,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Serves a graph as the tool of this name. Each call gets a clone of the context.
    #[allow(clippy::needless_pass_by_value)] // as it is written: `.graph("desk", Desk::compile(), context)`
    pub fn graph<S, C, I, O>(self, name: impl Into<String>, graph: CompiledGraph<S, C, I, O>, context: C) -> Self
    where
        S: Values,
        C: Clone + Send + Sync + 'static,
    {
        self.dyn_graph(name, Arc::new(graph.erase(move |_| Ok(context.clone()))))
    }

    /// The same of a graph without its types ([`CompiledGraph::erase`]): with a context made for each call, or schemas of one's own.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.graphs.insert(name.into(), Served::new(graph));
        self
    }

    /// The graph of this name may run as a task.
    pub fn long(mut self, name: &str) -> Self {
        if let Some(served) = self.graphs.get_mut(name) {
            served.is_long = true;
        }
        self
    }

    /// Where the threads of calls are kept that ask something. With the same saver and [`key`](Self::key), an answer can be brought to
    /// another process.
    pub fn saver(mut self, saver: impl Checkpointer) -> Self {
        self.saver = Arc::new(saver);
        self
    }

    /// The key that states are sealed with. Unless given it is random, and what is open cannot be answered once the process has ended.
    pub fn key(mut self, key: SealKey) -> Self {
        self.key = Some(key);
        self
    }

    /// For how long a question can be answered; a day unless given.
    pub fn questions_last(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// How many calls run at once; 100 unless given. Others are told that the server is busy.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// What the server calls itself; `hier` unless given.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Over HTTP: the token that each request must have, as `Authorization: Bearer …`.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        self.bearer = Some(token.into());
        self
    }

    /// Over HTTP: whoever reaches the server may call its tools, from other machines too.
    pub fn without_auth(mut self) -> Self {
        self.open_to_all = true;
        self
    }

    /// Over HTTP: the hosts by which the server is called (`example.com`, `example.com:8080`); this machine's own unless given.
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Over HTTP: the origins of pages that may use the server from a browser (`https://chat.example.com`). Unless given:
    /// those of this machine, if it has no other [`hosts`](Self::hosts), else none.
    pub fn allow_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.origins = origins.into_iter().map(Into::into).collect();
        self
    }

    fn handler(&self) -> Result<Handler, McpError> {
        if self.graphs.is_empty() {
            return Err(McpError::Serve("it has no graphs: give it one with `.graph(…)`".to_owned()));
        }
        for name in self.graphs.keys() {
            if let Some(mistake) = hier_core::spec::names::callable("tool", name) {
                return Err(McpError::Serve(mistake));
            }
        }
        let key = match &self.key {
            Some(key) => key.clone(),
            None => SealKey::random()?,
        };
        let calls = Calls {
            graphs: self.graphs.clone(),
            saver: self.saver.clone(),
            key,
            lasts: self.lasts,
            running: Arc::new(Semaphore::new(self.calls)),
        };
        let (tasks, owners) = (TaskManager::new(), Arc::default());
        Ok(Handler { calls: Arc::new(calls), tasks, owners, name: self.name.clone() })
    }

    /// Serves over standard input and output, until the client ends them. Nothing else may be written to standard output.
    pub async fn serve_stdio(self) -> Result<(), McpError> {
        let failed = |error: String| McpError::Serve(error);
        let serving = self.handler()?.serve(stdio()).await.map_err(|error| failed(error.to_string()))?;
        serving.waiting().await.map(|_| ()).map_err(|error| failed(error.to_string()))
    }

    /// The server over HTTP at `/mcp`, to be part of another. Who may use it is asked here only if it has a
    /// [`bearer`](Self::bearer). `stop` ends it: streams are closed.
    ///
    /// Sessions belong to the user that an [`Identity`](hier_core::Identity) in the extensions of a request names. Without one, they
    /// belong to the holder of an `Authorization`: a client that refreshes its token loses its sessions.
    pub fn router(self, stop: CancellationToken) -> Result<Router, McpError> {
        let handler = self.handler()?;
        let mut config =
            StreamableHttpServerConfig::default().with_cancellation_token(stop).enforce_origin_validation();
        let is_local = self.hosts.is_empty();
        if !is_local {
            config = config.with_allowed_hosts(self.hosts);
        }
        // Pages of this machine may use what is on this machine alone.
        let own = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).to_vec();
        let origins = if self.origins.is_empty() && is_local { own } else { self.origins };
        config = config.with_allowed_origins(origins);
        let manager = Arc::new(LocalSessionManager::default());
        let sessions = Arc::new(Sessions::new(manager.clone()));
        let service = StreamableHttpService::new(move || Ok(handler.clone()), manager, config);
        let guarded = from_fn(move |request: Request, next: Next| guard(sessions.clone(), request, next));
        let router = Router::new().route_service("/mcp", service).layer(guarded);
        let Some(token) = self.bearer else { return Ok(router) };
        let token: Arc<str> = token.into();
        Ok(router.layer(from_fn(move |request: Request, next: Next| admit(token.clone(), request, next))))
    }

    /// Serves over HTTP at `http://ADDRESS/mcp` until `stop`. On an address that other machines reach it needs a
    /// [`bearer`](Self::bearer), unless it is [open to all](Self::without_auth).
    pub async fn serve(self, address: &str, stop: CancellationToken) -> Result<(), McpError> {
        let failed = |error: std::io::Error| McpError::Serve(format!("{address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.serve_on(listener, stop).await
    }

    /// The same on a listener that is bound already.
    pub async fn serve_on(self, listener: TcpListener, stop: CancellationToken) -> Result<(), McpError> {
        let failed = |error: std::io::Error| McpError::Serve(error.to_string());
        let address: SocketAddr = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() && self.bearer.is_none() && !self.open_to_all {
            return Err(McpError::Serve(format!(
                "{address} can be reached from other machines: give the server a `.bearer(…)`, or say `.without_auth()`"
            )));
        }
        let router = self.router(stop.clone())?;
        // Otherwise each event of an answer waits until its client acknowledges the one before, 40 ms.
        let listener = listener.tap_io(|connection| {
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(%error, "a connection cannot be told not to wait: its answers will be slow");
            }
        });
        axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await.map_err(failed)
    }
}

/// Lets a request through that has the token.
async fn admit(token: Arc<str>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|given| given.to_str().ok());
    let given = given.and_then(|given| given.strip_prefix("Bearer ")).unwrap_or_default();
    if bool::from(given.as_bytes().ct_eq(token.as_bytes())) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response()
}
