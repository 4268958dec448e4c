//! MCP servers.

mod calls;
mod elicitation;
mod graph_tool;
mod handler;
mod progress;
mod prompt;
mod resource;
mod serving;
mod sessions;
mod tasks;
mod uri_template;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::{CompiledGraph, DynGraph};
use hier_core::state::Values;
use hier_core::{CancellationToken, Identity};
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use self::calls::GraphCalls;
use self::graph_tool::GraphTool;
use self::handler::{ClientRequestHandler, Offers};
use self::sessions::{Sessions, guard};
use crate::error::McpError;
use crate::seal::SealKey;

pub use self::prompt::ServedPrompt;
pub use self::resource::ServedResource;

/// An MCP server whose tools are graphs. It can also offer resources and prompts.
///
/// ```no_run
/// use hier_agents::prelude::*;
/// use hier_mcp::McpServer;
///
/// graph! {
///     /// Answers customers.
///     Desk<BaseState> = Agent { system: "You answer customers." }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), hier_mcp::McpError> {
/// # let context = BaseContext::default();
/// McpServer::new().graph("desk", Desk::compile(), context).serve_stdio().await
/// # }
/// ```
///
/// * **Arguments.** If a graph has a conversation, its tool takes the argument `message` and returns the model's last
///   message. The tools of other graphs take and return values of the graph's channels.
/// * **Progress.** A client can ask for progress notifications. It receives a notification when a node of the root
///   graph ends. If a node calls [`Run::emit`](hier_core::Run::emit) with `{"progress": …, "total": …, "message": …}`,
///   the client receives these values instead, and no further notifications of ended nodes.
/// * **Questions.** An interrupt of the run becomes a question to the client (`InputRequiredResult`). Its
///   `requestState` contains the encrypted id of the run's thread. The client can answer the question once, and must do
///   so within the [`question_timeout`](Self::question_timeout). A client with an older protocol receives the question
///   while its call waits.
/// * **Cancellation.** The run of a call is cancelled if the client cancels the call or disconnects. If a run should
///   continue without the client, allow the graph to [run as a task](Self::allow_task), whose state clients can query.
#[must_use = "a server does nothing until it serves"]
pub struct McpServer {
    graphs: Vec<(String, GraphTool)>,
    resources: Vec<ServedResource>,
    prompts: Vec<ServedPrompt>,
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

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("graphs", &self.names()).finish_non_exhaustive()
    }
}

impl Default for McpServer {
    fn default() -> Self {
        Self::new()
    }
}

impl McpServer {
    /// Creates a server without graphs. By default, the server keeps threads in memory.
    pub fn new() -> Self {
        Self {
            graphs: Vec::new(),
            resources: Vec::new(),
            prompts: Vec::new(),
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

    /// Adds a graph as a tool with this name. Each call receives a clone of the context. Two graphs with one name are an
    /// error when the server starts.
    #[allow(clippy::needless_pass_by_value)] // callers write `.graph("desk", Desk::compile(), context)`
    pub fn graph<S, C, I, O>(self, name: impl Into<String>, graph: CompiledGraph<S, C, I, O>, context: C) -> Self
    where
        S: Values,
        C: Clone + Send + Sync + 'static,
    {
        self.dyn_graph(name, Arc::new(graph.erase(move |_| Ok(context.clone()))))
    }

    /// Adds a type-erased graph ([`CompiledGraph::erase`]) as a tool with this name. Use this method, for example, to
    /// create a new context for each call, or to set custom schemas.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.graphs.push((name.into(), GraphTool::new(graph)));
        self
    }

    /// Adds a resource. Every client of the server can read it.
    pub fn resource(mut self, resource: ServedResource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds a prompt. Every client of the server can request it.
    pub fn prompt(mut self, prompt: ServedPrompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Allows the graph with this name to run as a task, which continues without a connection to the client. The server
    /// keeps the result for 24 hours. A client that does not support tasks waits for the result of its call. Add the
    /// [`graph`](Self::graph) before you call this method, which otherwise has no effect.
    pub fn allow_task(mut self, name: &str) -> Self {
        for (_, served) in self.graphs.iter_mut().filter(|(own, _)| own == name) {
            served.is_long = true;
        }
        self
    }

    /// Sets the saver that stores threads with open questions. By default, the server keeps these threads in memory. If
    /// several processes have the same saver and the same [`key`](Self::key), each of them accepts answers to the
    /// questions of the others.
    ///
    /// The thread of an unanswered question [expires](hier_core::Config::time_to_live) an hour after the
    /// [`question_timeout`](Self::question_timeout). The server deletes the expired threads of the saver when it starts
    /// (a router that is created outside a Tokio runtime: at the first request), and then each hour.
    pub fn saver(mut self, saver: impl Checkpointer) -> Self {
        self.saver = Arc::new(saver);
        self
    }

    /// Sets the key that encrypts the state of an open question, which the client sends back with its answer. Defaults to
    /// a random key for each process. If clients must be able to answer after a restart, set a key and a
    /// [`saver`](Self::saver) that keeps threads in a database.
    pub fn key(mut self, key: SealKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the time within which a client must answer a question. An answer of the wrong type does not extend this time.
    /// The server rejects later answers. A task that waits for the answer, or a call of a client with an older protocol,
    /// then fails. A call also fails if its run finds after this time that an answer has the wrong type. Defaults to 24
    /// hours.
    pub fn question_timeout(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Sets the maximum number of concurrent calls. If this number is reached, further calls fail. A task that waits for
    /// an answer does not count. Defaults to 100.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// Sets the name that the server reports to clients. Defaults to `hier`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the token that each HTTP request must contain as `Authorization: Bearer …`.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        self.bearer = Some(token.into());
        self
    }

    /// Allows requests without authentication. [`serve`](Self::serve) may then listen on an address that other machines
    /// can reach, even without a token. A [`router`](Self::router) accepts requests without an
    /// [`Identity`](hier_core::Identity).
    pub fn without_auth(mut self) -> Self {
        self.open_to_all = true;
        self
    }

    /// Sets the host names under which clients reach the HTTP server, such as `example.com` or `example.com:8080`. The
    /// server rejects requests to other host names. Defaults to `localhost`, `127.0.0.1` and `::1`.
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the origins of web pages that may use the HTTP server, such as `https://chat.example.com`.
    ///
    /// By default, pages from `http://localhost`, `http://127.0.0.1` and `http://[::1]` may use the server, at any
    /// port. If [`hosts`](Self::hosts) is set, no pages may use the server by default.
    pub fn allow_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.origins = origins.into_iter().map(Into::into).collect();
        self
    }

    fn handler(&self) -> Result<ClientRequestHandler, McpError> {
        if let Some(mistake) = self.mistake() {
            return Err(McpError::Serve(mistake));
        }
        let key = match &self.key {
            Some(key) => key.clone(),
            None => SealKey::random()?,
        };
        let graphs = self.graphs.iter().cloned().collect();
        let calls = GraphCalls::new(graphs, self.saver.clone(), key, self.lasts, self.calls);
        let offers = Offers { resources: self.resources.clone(), prompts: self.prompts.clone() };
        // A router may be created outside a runtime. The deletion then starts with the first request.
        if Handle::try_current().is_ok() {
            calls.sweep();
        }
        let (calls, offers) = (Arc::new(calls), Arc::new(offers));
        Ok(ClientRequestHandler { calls, offers, tasks: Arc::default(), name: self.name.clone() })
    }

    fn names(&self) -> Vec<&str> {
        self.graphs.iter().map(|(name, _)| &**name).collect()
    }

    /// Returns the mistake of the server, if there is one.
    fn mistake(&self) -> Option<String> {
        if self.graphs.is_empty() && self.resources.is_empty() && self.prompts.is_empty() {
            return Some("the server has no graphs: add one with `.graph(…)`".to_owned());
        }
        let tools = self.names().iter().find_map(|name| hier_core::spec::names::callable("tool", name));
        tools.or_else(|| {
            let own = self.resources.iter().find_map(ServedResource::mistake);
            own.or_else(|| self.prompts.iter().find_map(ServedPrompt::mistake))
                .or_else(|| doubled("graphs have the name", self.names().into_iter()))
                .or_else(|| doubled("resources have the URI", self.resources.iter().map(ServedResource::uri)))
                .or_else(|| doubled("prompts have the name", self.prompts.iter().map(ServedPrompt::name)))
        })
    }

    /// Serves on standard input and output until the client closes them. Make sure that your program does not write
    /// anything else to standard output.
    ///
    /// # Errors
    ///
    /// Fails if the server offers nothing, if a name or a URI is invalid or occurs twice, or if the connection fails.
    pub async fn serve_stdio(self) -> Result<(), McpError> {
        let failed = |error: String| McpError::Serve(error);
        let serving = self.handler()?.serve(stdio()).await.map_err(|error| failed(error.to_string()))?;
        serving.waiting().await.map(|_| ()).map_err(|error| failed(error.to_string()))
    }

    /// Returns a router that serves the path `/mcp`, which you can merge into your own axum server. When you cancel
    /// `stop`, the router closes its streams.
    ///
    /// The router checks the [`bearer`](Self::bearer) token, the [host](Self::hosts) and the
    /// [origin](Self::allow_origins) of each request. Without a token, your axum server must authenticate users. The
    /// router then refuses requests without the extension [`Identity`](hier_core::Identity). To allow such requests,
    /// call [`without_auth`](Self::without_auth). A hier server with authentication adds this extension.
    ///
    /// Each session has an owner. To other users, the session appears not to exist. The owner is the
    /// [`Identity`](hier_core::Identity) of the request that started the session. Without this extension, the owner is
    /// the value of the `Authorization` header. A client that refreshes its token then loses its sessions.
    pub fn router(self, stop: CancellationToken) -> Result<Router, McpError> {
        let is_protected = self.bearer.is_some() || self.open_to_all;
        let router = self.routes(stop)?;
        Ok(if is_protected { router } else { router.layer(from_fn(require_identity)) })
    }

    fn routes(self, stop: CancellationToken) -> Result<Router, McpError> {
        let handler = self.handler()?;
        let mut config =
            StreamableHttpServerConfig::default().with_cancellation_token(stop).enforce_origin_validation();
        let is_local = self.hosts.is_empty();
        if !is_local {
            config = config.with_allowed_hosts(self.hosts);
        }
        // By default, only pages from this machine may use a local server.
        let own = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).to_vec();
        let origins = if self.origins.is_empty() && is_local { own } else { self.origins };
        config = config.with_allowed_origins(origins);
        let manager = Arc::new(LocalSessionManager::default());
        let sessions = Arc::new(Sessions::new(manager.clone()));
        let begin = move || {
            handler.calls.sweep();
            Ok(handler.clone())
        };
        let service = StreamableHttpService::new(begin, manager, config);
        let guarded = from_fn(move |request: Request, next: Next| guard(sessions.clone(), request, next));
        let router = Router::new().route_service("/mcp", service).layer(guarded);
        let Some(token) = self.bearer else { return Ok(router) };
        let token: Arc<str> = token.into();
        Ok(router.layer(from_fn(move |request: Request, next: Next| admit(token.clone(), request, next))))
    }

    /// Serves over HTTP at `http://ADDRESS/mcp` until `stop` is cancelled. If other machines can reach the address, set
    /// a [`bearer`](Self::bearer) token or call [`without_auth`](Self::without_auth). Otherwise this method fails.
    ///
    /// Cancel safety: if the future is dropped, the server accepts no new connections, but open connections continue.
    /// To close them, cancel `stop`.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot listen on the address, if the server offers nothing, or if a name or a URI is invalid
    /// or occurs twice.
    pub async fn serve(self, address: &str, stop: CancellationToken) -> Result<(), McpError> {
        let failed = |error: std::io::Error| McpError::Serve(format!("{address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        self.serve_on(listener, stop).await
    }

    /// Serves like [`serve`](Self::serve), but on a listener that is already bound.
    pub async fn serve_on(self, listener: TcpListener, stop: CancellationToken) -> Result<(), McpError> {
        let failed = |error: std::io::Error| McpError::Serve(error.to_string());
        let address: SocketAddr = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() && self.bearer.is_none() && !self.open_to_all {
            return Err(McpError::Serve(format!(
                "{address} can be reached from other machines: set a `.bearer(…)` token, or use `.without_auth()`"
            )));
        }
        let router = self.routes(stop.clone())?;
        serving::serve(listener, router, stop).await;
        Ok(())
    }
}

/// Returns an error message if two of these texts are equal.
fn doubled<'a>(what: &str, texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut known = BTreeSet::new();
    let doubled = texts.into_iter().find(|text| !known.insert(*text))?;
    Some(format!("two {what} `{doubled}`: change one"))
}

/// Passes a request on if the surrounding server has authenticated its user.
async fn require_identity(request: Request, next: Next) -> Response {
    if request.extensions().get::<Identity>().is_some() {
        return next.run(request).await;
    }
    let refused = "this MCP server accepts only authenticated users: authenticate them in the surrounding server, which must \
                   add an `Identity` to the extensions of each request, set a token with `McpServer::bearer`, or call \
                   `McpServer::without_auth`";
    (StatusCode::FORBIDDEN, refused).into_response()
}

/// Passes a request on if it has the token.
async fn admit(token: Arc<str>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|given| given.to_str().ok());
    let given = given.and_then(|given| given.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map_or("", |(_, token)| token.trim());
    if bool::from(given.as_bytes().ct_eq(token.as_bytes())) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response()
}
