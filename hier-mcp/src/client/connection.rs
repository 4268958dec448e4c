//! A client, and its connection.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hier_agents::ToolSpec;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::link::Link;
use super::options::{Options, Place};
use super::shape::Shape;
use crate::error::McpError;

/// A server whose tools agents can call: a [`Toolset`](hier_agents::Toolset). Clones share the connection.
///
/// It connects when it is used first, and again when the connection was lost; the program that it started ends with the last clone.
/// A call that the connection was lost in is not repeated: nobody knows whether it was done.
///
/// Tools are listed by `tools/list`, as often as the server's `ttlMs` and its notifications ask for. What a tool returns is cut to
/// [`max_text`](super::ClientBuilder::max_text); an error of a tool is told to the model.
///
/// # Questions of the server
///
/// A server that speaks the protocol of 2026-07-28 answers a call with questions (`InputRequiredResult`). Each becomes an interrupt with its
/// JSON schema, one after the other ([`Question`](hier_core::Question)); what the server gave to go on with (`requestState`) is stored with the task. Once all
/// are answered, the call goes on with its next round, in whatever process and however much later; the first is never repeated.
/// Requests for a model are answered by [`sampling`](super::ClientBuilder::sampling), those for folders by [`roots`](super::ClientBuilder::roots).
///
/// An older server asks in the middle of a call, which then waits: [`answer`](super::ClientBuilder::answer) does that, where the run is not
/// durable. In a durable run such a question is refused, and the call fails with an error that says so.
///
/// ```no_run
/// use hier_agents::prelude::*;
/// use hier_mcp::Client;
///
/// struct Desk {
///     base: BaseContext,
///     crm: Client,
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
/// let crm = Client::stdio("crm", "/usr/local/bin/crm-server")
///     .env("CRM_TOKEN", "…")
///     .prefix("crm_")
///     .approve(["refund"])
///     .build()?;
/// # let _ = crm;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) name: String,
    place: Place,
    pub(super) options: Options,
    link: Mutex<Option<Arc<Link>>>,
    /// The tools that were listed last.
    pub(super) catalogue: Mutex<Option<Catalogue>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn of(name: String, place: Place, options: Options) -> Self {
        let (link, catalogue) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { name, place, options, link, catalogue }))
    }

    /// Connects, unless it is connected: to find out early whether the server is there.
    pub async fn connect(&self) -> Result<(), McpError> {
        self.link().await.map(|_| ())
    }

    /// Ends the connection, and the program. Used again, it connects again. Calls that are being made fail.
    pub async fn close(&self) {
        *self.0.link.lock().await = None;
    }

    /// The live connection. Cancel safety: dropped, nothing has changed but that a program may have been started and ended.
    pub(super) async fn link(&self) -> Result<Arc<Link>, McpError> {
        let mut held = self.0.link.lock().await;
        if let Some(link) = held.as_ref().filter(|link| link.is_open()) {
            return Ok(link.clone());
        }
        // The old one ends before there is another.
        *held = None;
        let link = Arc::new(Link::open(&self.0.name, &self.0.place, &self.0.options).await?);
        *held = Some(link.clone());
        Ok(link)
    }

    /// Asks something that may be asked twice: once more, if the connection was lost.
    pub(super) async fn ask<T, F>(&self, request: &str, ask: impl Fn(Arc<Link>) -> F) -> Result<T, McpError>
    where
        F: Future<Output = Result<T, rmcp::ServiceError>>,
    {
        let mut again = true;
        loop {
            let link = self.link().await?;
            let (server, patience) = (self.0.name.clone(), self.0.options.timeout);
            let answer = timeout(patience, ask(link.clone())).await;
            let Ok(answer) = answer else {
                return Err(McpError::Timeout { server, request: request.to_owned(), after: patience });
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(_) if again && !link.is_open() => again = false,
                Err(error) => return Err(McpError::of(error, &server, request, || link.said())),
            }
        }
    }
}

/// A tool of a server.
#[derive(Debug)]
pub(crate) struct Known {
    /// The server's name for it.
    pub(crate) name: String,
    pub(crate) shape: Shape,
}

/// What a server has.
#[derive(Clone)]
pub(crate) struct Catalogue {
    pub(crate) specs: Arc<[ToolSpec]>,
    /// The tools, by the names that models call.
    pub(crate) tools: Arc<BTreeMap<String, Known>>,
    /// Until when the server lets it be kept.
    pub(super) until: Option<Instant>,
}
