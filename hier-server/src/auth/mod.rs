//! Authentication and authorization of users.

mod jwt;
mod tokens;

use async_trait::async_trait;
use axum::http::{HeaderMap, Method};
use serde_json::{Map, Value};

pub use jwt::{BadKey, Jwt};
pub use tokens::Tokens;

use crate::error::ApiError;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct User {
    /// The name of the user. The default rules store it with the user's threads.
    pub identity: String,
    /// The user's permissions, which [`Auth::authorize`] can check.
    pub permissions: Vec<String>,
    /// Other claims about the user, such as those of a token. The function that creates a run's context receives them.
    /// They are never logged.
    pub claims: Map<String, Value>,
}

impl User {
    /// Creates a user with this identity, without permissions or claims.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), ..Self::default() }
    }

    /// Returns the first label of the user's namespaces in the store. It is the identity with `%25` for `%` and `%2E`
    /// for `.`, because labels cannot contain periods: `carol@example%2Ecom` for `carol@example.com`.
    pub fn store_label(&self) -> String {
        self.identity.replace('%', "%25").replace('.', "%2E")
    }

    /// Sets the permissions.
    #[must_use]
    pub fn with_permissions<P: Into<String>>(mut self, permissions: impl IntoIterator<Item = P>) -> Self {
        self.permissions = permissions.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the claims.
    #[must_use]
    pub fn with_claims(mut self, claims: Map<String, Value>) -> Self {
        self.claims = claims;
        self
    }
}

/// The parts of a request that identify its user.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Credentials<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The path of the request.
    pub path: &'a str,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl<'a> Credentials<'a> {
    pub(crate) fn new(method: &'a Method, path: &'a str, headers: &'a HeaderMap) -> Self {
        Self { method, path, headers }
    }

    /// Returns the token from the header `Authorization: Bearer …` or `x-api-key`.
    pub fn token(&self) -> Option<&'a str> {
        let text = |name| self.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.or_else(|| text("x-api-key")).filter(|token| !token.is_empty())
    }
}

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Assistants.
    Assistants,
    /// Threads, with their states and runs.
    Threads,
    /// Crons.
    Crons,
    /// The memory store.
    Store,
}

/// An action on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Creates a resource. A run or cron that creates its own thread needs this right for threads too.
    Create,
    /// Reads a resource.
    Read,
    /// Changes a resource.
    Update,
    /// Deletes a resource.
    Delete,
    /// Lists or counts resources.
    Search,
    /// Starts, answers, cancels or deletes a run of a thread. Also required for `cancel_on_disconnect`.
    CreateRun,
}

/// An action that a user wants to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The kind of resource.
    pub resource: Resource,
    /// The action.
    pub action: Action,
    /// The namespace in the store. Empty for other kinds of resources.
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

/// The decision about an [`Access`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Grants access to all resources.
    Allow,
    /// Grants access to resources whose metadata contains these values, which are added to new resources. Other
    /// resources appear not to exist. For the store, this is the same as `Allow`, because items have no metadata.
    Only(Map<String, Value>),
    /// Refuses access with status 403.
    Deny,
}

/// Authenticates users and authorizes their actions.
///
/// ```
/// use hier_server::ApiError;
/// use hier_server::auth::{Access, Auth, Credentials, Decision, User};
///
/// /// Grants all rights to users who know the password.
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
    /// Returns the user who sent the request. Not called for `/ok`, `/info`, `/metrics`, `/docs`, `/openapi.json` and
    /// the pages of the studio.
    ///
    /// # Errors
    ///
    /// The error is sent to the client. For an unknown user, return [`ApiError::unauthenticated`].
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError>;

    /// Decides if a user may carry out an action.
    ///
    /// By default, users have access to their own threads, assistants and crons, which have them as `owner` in their
    /// metadata, and to the namespaces of the store that start with their [`store_label`](User::store_label).
    async fn authorize(&self, user: &User, access: Access<'_>) -> Decision {
        owned(user, access)
    }
}

/// Grants users access to their own resources.
fn owned(user: &User, access: Access<'_>) -> Decision {
    if access.resource == Resource::Store {
        let is_own = access.namespace.first().is_some_and(|label| *label == user.store_label());
        return if is_own { Decision::Allow } else { Decision::Deny };
    }
    Decision::Only(Map::from_iter([("owner".to_owned(), Value::from(user.identity.clone()))]))
}

/// Grants all rights to everyone. Used on loopback addresses if no other authentication is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoAuth;

#[async_trait]
impl Auth for NoAuth {
    async fn authenticate(&self, _request: Credentials<'_>) -> Result<User, ApiError> {
        Ok(User::default())
    }

    async fn authorize(&self, _user: &User, _access: Access<'_>) -> Decision {
        Decision::Allow
    }
}
