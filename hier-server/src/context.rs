//! The context of runs: a value, or a function of the request.

use hier_core::NodeError;
use hier_core::graph::RunContext;
use serde_json::Value;

use crate::auth::User;
use crate::reserved::USER;

/// The request for a run, from which a function creates the run's context.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunRequest {
    /// The `context` of the request. Null if it has none.
    pub context: Value,
    /// The `config.configurable` of the request.
    pub configurable: serde_json::Map<String, Value>,
    /// The id of the thread.
    pub thread: Option<String>,
    /// The user who requested the run. The identity is empty if the server does not authenticate users.
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

/// A context for [`Server::graph`](crate::Server::graph): a value that is cloned for each run, or a function of the
/// [`RunRequest`], which may fail. `M` is inferred.
pub trait IntoContext<C, M>: Send + Sync + 'static {
    /// Returns the context of a run.
    fn context(&self, run: &RunRequest) -> Result<C, NodeError>;
}

/// Marks a context that is a value.
#[derive(Debug)]
pub struct ByValue(());

/// Marks a context that is a function.
#[derive(Debug)]
pub struct ByFunction(());

/// Marks a context that is a function that may fail.
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
