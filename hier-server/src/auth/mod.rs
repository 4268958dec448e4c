//! Who asks, and what they may do.

mod jwt;
mod tokens;

use async_trait::async_trait;
use axum::http::{HeaderMap, Method};
use serde_json::{Map, Value};

pub use jwt::{BadKey, Jwt};
pub use tokens::Tokens;

use crate::error::ApiError;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct User {
    /// The name that the user's threads are stored with.
    pub identity: String,
    /// What the user may do, in words that [`Auth::authorize`] understands.
    pub permissions: Vec<String>,
    /// What else is known of the user. It reaches the function that makes a run's context, and is never logged.
    pub claims: Map<String, Value>,
}

impl User {
    /// A user with this identity.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), ..Self::default() }
    }

    /// Returns the first label of the user's namespaces in the store: the identity with `%25` for each `%` and `%2E` for each period,
    /// because labels cannot contain periods. For example, `carol@example.com` has `carol@example%2Ecom`.
    pub fn store_label(&self) -> String {
        self.identity.replace('%', "%25").replace('.', "%2E")
    }

    /// The same user with these permissions.
    #[must_use]
    pub fn with_permissions<P: Into<String>>(mut self, permissions: impl IntoIterator<Item = P>) -> Self {
        self.permissions = permissions.into_iter().map(Into::into).collect();
        self
    }

    /// The same user with these claims.
    #[must_use]
    pub fn with_claims(mut self, claims: Map<String, Value>) -> Self {
        self.claims = claims;
        self
    }
}

/// What a request shows of who sends it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Credentials<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path.
    pub path: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl<'a> Credentials<'a> {
    pub(crate) fn new(method: &'a Method, path: &'a str, headers: &'a HeaderMap) -> Self {
        Self { method, path, headers }
    }

    /// The token of the request: `Authorization: Bearer …`, or `x-api-key`.
    pub fn token(&self) -> Option<&'a str> {
        let text = |name| self.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.or_else(|| text("x-api-key")).filter(|token| !token.is_empty())
    }
}

/// What something is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Assistants.
    Assistants,
    /// Threads, with their states and runs.
    Threads,
    /// Crons.
    Crons,
    /// The memory across threads.
    Store,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Creates a resource. Runs and crons that create their threads need this right for threads, too.
    Create,
    /// Reads one.
    Read,
    /// Changes one.
    Update,
    /// Deletes one.
    Delete,
    /// Lists or counts them.
    Search,
    /// Starts, answers, cancels or deletes a run of a thread. Also needed to cancel a run when the client leaves
    /// (`cancel_on_disconnect`).
    CreateRun,
}

/// Something that a user wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// To what.
    pub resource: Resource,
    /// What.
    pub action: Action,
    /// The namespace, if it is the store.
    pub namespace: &'a [String],
}

impl<'a> Access<'a> {
    pub(crate) fn new(resource: Resource, action: Action) -> Self {
        Self { resource, action, namespace: &[] }
    }

    pub(crate) fn store(action: Action, namespace: &'a [String]) -> Self {
        Self { resource: Resource::Store, action, namespace }
    }
}

/// Whether a user may do something.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// To all of them.
    Allow,
    /// To those whose metadata has these values. What is created gets them. Others look absent. For the store it is as
    /// `Allow`: its items have no metadata.
    Only(Map<String, Value>),
    /// To none: 403.
    Deny,
}

/// Tells who asks, and what they may do.
///
/// ```
/// use hier_server::ApiError;
/// use hier_server::auth::{Access, Auth, Credentials, Decision, User};
///
/// /// Whoever knows the password may read and write everything.
/// struct Password;
///
/// #[hier_server::async_trait]
/// impl Auth for Password {
///     async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError> {
///         match request.token() {
///             Some("open sesame") => Ok(User::new("ali")),
///             _ => Err(ApiError::unauthenticated("say the word")),
///         }
///     }
///
///     async fn authorize(&self, _user: &User, _access: Access<'_>) -> Decision {
///         Decision::Allow
///     }
/// }
/// ```
#[async_trait]
pub trait Auth: Send + Sync + 'static {
    /// Who sends this request. Called for every request but `/ok`, `/info`, `/metrics`, `/docs` and `/openapi.json`.
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError>;

    /// Decides whether a user may do something. By default, every user has their own threads, assistants and crons, by the metadata
    /// `owner`, and in the store the namespaces whose first label is their [`store_label`](User::store_label).
    async fn authorize(&self, user: &User, access: Access<'_>) -> Decision {
        owned(user, access)
    }
}

/// Everybody has their own.
fn owned(user: &User, access: Access<'_>) -> Decision {
    if access.resource == Resource::Store {
        let is_own = access.namespace.first().is_some_and(|label| *label == user.store_label());
        return if is_own { Decision::Allow } else { Decision::Deny };
    }
    Decision::Only(Map::from_iter([("owner".to_owned(), Value::from(user.identity.clone()))]))
}

/// Everybody may do everything: what is served on loopback without anything else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open;

#[async_trait]
impl Auth for Open {
    async fn authenticate(&self, _request: Credentials<'_>) -> Result<User, ApiError> {
        Ok(User::default())
    }

    async fn authorize(&self, _user: &User, _access: Access<'_>) -> Decision {
        Decision::Allow
    }
}
