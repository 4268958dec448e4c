use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hier_agents::ToolSpec;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::connection::ServerConnection;
use super::options::{ClientOptions, ServerLocation};
use super::tool_schema::AdaptedSchema;
use crate::error::McpError;

/// A client of an MCP server. An agent uses the client as a [`Toolset`](hier_agents::Toolset). Clones share the
/// connection.
///
/// ```no_run
/// use hier_agents::prelude::*;
/// use hier_mcp::McpClient;
///
/// struct Desk {
///     base: BaseContext,
///     crm: McpClient,
/// }
/// # impl AsRef<BaseContext> for Desk {
/// #     fn as_ref(&self) -> &BaseContext {
/// #         &self.base
/// #     }
/// # }
///
/// graph! {
///     Support<BaseState, Desk> = Agent { tools: [|desk| &desk.crm] }
/// }
///
/// # fn main() -> Result<(), hier_mcp::McpError> {
/// let crm = McpClient::stdio("crm", "/usr/local/bin/crm-server")
///     .env("CRM_TOKEN", "…")
///     .prefix("crm_")
///     .approve(["refund"])
///     .build()?;
/// # let _ = crm;
/// # Ok(())
/// # }
/// ```
///
/// * **Connection.** The client connects when it is first used, and again after the connection was lost. If the
///   connection is lost during a call, the call fails. The client does not repeat it, because the server may have
///   executed it. If the server has ended the session, it has not executed the call, so the client repeats the call in
///   a new session. If the client has started the server's program, the program ends when the last clone of the client
///   is dropped. If the program no longer responds after a request has timed out, the client starts it again.
/// * **Tasks.** A server may respond to a call with a task, which continues without a connection. The id of the task is
///   stored with the run. The client waits for the task, even if the connection is lost or another process resumes the
///   run.
/// * **Tools.** The client caches the list of tools until the server's `ttlMs` or one hour has passed, until the server
///   sends a notification of a change, or until the connection is lost. Without a `ttlMs`, the client caches the list
///   only if the server sends such notifications. Results are cut after [`max_text`](super::McpClientBuilder::max_text)
///   bytes. If a tool fails, the model receives the error.
/// * **Schemas.** A model's provider can reject the names, descriptions and schemas of a server's tools, so the client
///   adapts them for the model. Invalid characters in names become `_`. Descriptions are cut after 8,000 characters. A
///   top-level `anyOf`, `oneOf` or `allOf` becomes a single argument with the name `value`. When the model calls a
///   tool, the client sends the server the original name, and arguments that match the original schema.
///
/// # Questions of the server
///
/// A server with the protocol of 2026-07-28 can respond to a call with questions (`InputRequiredResult`). In a run with
/// a checkpointer, the questions interrupt the run one after the other. Each question has a JSON Schema for its answer
/// ([`Question`](hier_core::Question)). When all questions are answered, the call continues with its next round, even
/// after days and in another process. The client does not repeat completed rounds. If the server requests a model or
/// folders, the client answers without a person, from the options [`sampling`](super::McpClientBuilder::sampling) and
/// [`roots`](super::McpClientBuilder::roots).
///
/// A server with an older protocol asks its questions while the call is open. In a run with a checkpointer, the client
/// refuses such a question. If the call then fails, its error explains the reason.
///
/// In a run without a checkpointer, the function [`answer`](super::McpClientBuilder::answer) answers the questions of
/// servers with any protocol.
#[derive(Clone)]
pub struct McpClient(pub(super) Arc<ClientState>);

pub(super) struct ClientState {
    pub(super) name: String,
    pub(super) location: ServerLocation,
    pub(super) options: ClientOptions,
    connection: Mutex<Option<Arc<ServerConnection>>>,
    pub(super) catalogue: Mutex<Option<RemoteTools>>,
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClient").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl McpClient {
    pub(super) fn new(name: String, location: ServerLocation, options: ClientOptions) -> Self {
        let (connection, catalogue) = (Mutex::default(), Mutex::default());
        Self(Arc::new(ClientState { name, location, options, connection, catalogue }))
    }

    /// Connects if the client is not connected. Use this method, for example, to check at startup that the server is
    /// reachable. Cancel safe: a later call connects again.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.connection().await.map(|_| ())
    }

    /// Closes the connection, and ends the server's program if the client has started it. Calls in progress fail. When
    /// the client is used again, it connects again.
    pub async fn close(&self) {
        *self.0.connection.lock().await = None;
    }

    /// Returns the open connection, or connects. Cancel safety: dropping the future may only start and end a program.
    pub(super) async fn connection(&self) -> Result<Arc<ServerConnection>, McpError> {
        let mut held = self.0.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        // The old connection ends before the new one starts.
        *held = None;
        let connection = Arc::new(ServerConnection::open(&self.0.name, &self.0.location, &self.0.options).await?);
        *held = Some(connection.clone());
        Ok(connection)
    }

    /// Sends an idempotent request. Repeats it once if the connection was lost.
    pub(super) async fn request<T, F>(
        &self,
        request: &str,
        send: impl Fn(Arc<ServerConnection>) -> F,
    ) -> Result<T, McpError>
    where
        F: Future<Output = Result<T, rmcp::ServiceError>>,
    {
        let mut again = true;
        loop {
            let connection = self.connection().await?;
            let (server, time_limit) = (self.0.name.clone(), self.0.options.timeout);
            let answer = timeout(time_limit, send(connection.clone())).await;
            let Ok(answer) = answer else {
                self.check_later(&connection);
                return Err(McpError::Timeout { server, request: request.to_owned(), after: time_limit });
            };
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => connection.error(error, &server, request),
            };
            let reads_tokens_again = self.reads_tokens_again(&error, &connection).await;
            if !again || connection.is_open() && !reads_tokens_again {
                return Err(error);
            }
            again = false;
        }
    }

    /// Checks a program after a request has timed out. If the program no longer responds, the client starts it again.
    /// While other requests are in progress, the program may be busy with them, so the client does not check it.
    pub(super) fn check_later(&self, connection: &Arc<ServerConnection>) {
        // The client and the caller hold the connection, and so does each other request.
        if self.0.location.is_program() && Arc::strong_count(connection) <= 2 {
            let (connection, patience) = (connection.clone(), self.0.options.timeout);
            tokio::spawn(async move { connection.check(patience).await });
        }
    }

    /// Closes the connection if the server rejected its tokens. Returns true if the next connection may have other
    /// tokens.
    pub(super) async fn reads_tokens_again(&self, error: &McpError, connection: &Arc<ServerConnection>) -> bool {
        let McpError::Authorization { scope, .. } = error else { return false };
        self.0.connection.lock().await.take_if(|held| Arc::ptr_eq(held, connection));
        #[cfg(feature = "oauth")]
        if let Some(auth) = self.0.location.auth() {
            return match scope {
                Some(scope) => {
                    auth.require(scope).await;
                    false
                }
                None => true,
            };
        }
        let _ = scope;
        false
    }

    pub(super) async fn open_connection(&self) -> Option<Arc<ServerConnection>> {
        self.0.connection.lock().await.clone().filter(|connection| connection.is_open())
    }
}

#[derive(Debug)]
pub(crate) struct RemoteTool {
    /// The server's name of the tool.
    pub(crate) name: String,
    pub(crate) schema: AdaptedSchema,
}

#[derive(Clone)]
pub(crate) struct RemoteTools {
    pub(crate) specs: Arc<[ToolSpec]>,
    /// The tools by their names for models.
    pub(crate) tools: Arc<BTreeMap<String, RemoteTool>>,
    /// The end of the cache time.
    pub(super) until: Option<Instant>,
}
