//! The contexts of runs, which are values or functions of the request.

use hier_core::NodeError;
use hier_core::graph::RunContext;
use serde_json::Value;

use crate::auth::User;
use crate::reserved::USER;

/// A request for a run. A function that is passed to [`Server::graph`](crate::Server::graph) creates the context of the
/// run from this request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunRequest {
    /// The `context` of the request. Without a `context`, this is [`configurable`](Self::configurable) if the request
    /// has a `config` or the assistant has no context. In all other cases, and if `configurable` is empty, this is the
    /// context of the assistant, or null if the assistant has none.
    pub context: Value,
    /// The fields of the assistant's `config.configurable` and of the request's `config.configurable`. If both have a
    /// field, the value of the request takes precedence. Does not contain the user.
    pub configurable: serde_json::Map<String, Value>,
    /// The id of the run's thread. The server sets this field for every run, so it is never `None`. If the run
    /// continues a detached subagent, this is the id of the supervisor's thread.
    pub thread: Option<String>,
    /// The user who requested the run. On a server that does not authenticate users, the identity is empty.
    pub user: User,
}

impl RunRequest {
    pub(crate) fn of(run: &RunContext) -> Self {
        let mut configurable = run.configurable.clone();
        let user = configurable.remove(USER);
        configurable.retain(|name, _| !name.starts_with(USER));
        let text = |name: &str| user.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let listed = user.as_ref().and_then(|user| user.get("permissions")).and_then(Value::as_array);
        let permissions = listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let claims = user.as_ref().and_then(|user| user.get("claims")).and_then(Value::as_object);
        let user = User {
            identity: text("identity").unwrap_or_default(),
            permissions: permissions.collect(),
            claims: claims.cloned().unwrap_or_default(),
        };
        Self { context: run.context.clone(), configurable, thread: run.thread.clone(), user }
    }
}

/// An argument of [`Server::graph`](crate::Server::graph) from which the server gets the context `C` of each run.
/// Values of the type `C` implement this trait: the server clones the value for each run. Functions from
/// [`&RunRequest`](RunRequest) to `C` or to a `Result` of `C` also implement it. The compiler infers `M`, which is
/// [`ByValue`], [`ByFunction`] or [`ByFallible`].
pub trait IntoContext<C, M>: Send + Sync + 'static {
    /// Returns the context for a run.
    fn context(&self, run: &RunRequest) -> Result<C, NodeError>;
}

/// The parameter `M` of [`IntoContext`] for a context that is a value.
#[derive(Debug)]
pub struct ByValue(());

/// The parameter `M` of [`IntoContext`] for a function that returns the context.
#[derive(Debug)]
pub struct ByFunction(());

/// The parameter `M` of [`IntoContext`] for a function that returns a `Result` with the context.
#[derive(Debug)]
pub struct ByFallible(());

impl<C: Clone + Send + Sync + 'static> IntoContext<C, ByValue> for C {
    fn context(&self, _run: &RunRequest) -> Result<C, NodeError> {
        Ok(self.clone())
    }
}

impl<C, F: Fn(&RunRequest) -> C + Send + Sync + 'static> IntoContext<C, ByFunction> for F {
    fn context(&self, run: &RunRequest) -> Result<C, NodeError> {
        Ok(self(run))
    }
}

impl<C, F: Fn(&RunRequest) -> Result<C, NodeError> + Send + Sync + 'static> IntoContext<C, ByFallible> for F {
    fn context(&self, run: &RunRequest) -> Result<C, NodeError> {
        self(run)
    }
}
