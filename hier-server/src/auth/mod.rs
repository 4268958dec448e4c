//! Authentication and authorization of users. [`Tokens`] and [`Jwt`] implement the trait [`Auth`].

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
    /// The name of the user, unique among all users. The default rules store it with the user's threads, assistants and
    /// crons.
    pub identity: String,
    /// The user's permissions. A custom [`Auth::authorize`] can check them. The default rules ignore them.
    pub permissions: Vec<String>,
    /// Further facts about the user, such as the claims of a token. The server stores them with each run of the user,
    /// and passes them to the function that creates the run's context. The server never logs them.
    pub claims: Map<String, Value>,
}

impl User {
    /// Creates a user with this identity, without permissions or claims.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), ..Self::default() }
    }

    /// Returns the first label of the user's namespaces in the store, such as `carol@example%2Ecom` for
    /// `carol@example.com`. The label is the identity with `%25` for `%` and `%2E` for `.`, because labels cannot
    /// contain periods. The label of the user `*` is `%2A`, because `*` matches all labels in a search for namespaces.
    /// The label of the user `hier` is `%68ier`, because namespaces of the framework begin with `hier`.
    pub fn store_label(&self) -> String {
        match &*self.identity {
            "*" => "%2A".to_owned(),
            "hier" => "%68ier".to_owned(),
            name => name.replace('%', "%25").replace('.', "%2E"),
        }
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

    /// Returns the token in the header `Authorization: Bearer …`, or else in the header `x-api-key`. Returns `None` if
    /// the request has neither.
    pub fn token(&self) -> Option<&'a str> {
        let text = |name| self.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        bearer.or_else(|| text("x-api-key")).filter(|token| !token.is_empty())
    }
}

/// A kind of resource to which [`Auth::authorize`] grants or refuses access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Assistants.
    Assistants,
    /// Threads, with their states and runs.
    Threads,
    /// Crons.
    Crons,
    /// The store of values that threads share.
    Store,
}

/// An action on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Creates a resource. If a request for a run or cron creates a thread, the user also needs this right for
    /// [`Resource::Threads`].
    Create,
    /// Reads a resource.
    Read,
    /// Changes a resource, or stores an item in the store.
    Update,
    /// Deletes a resource.
    Delete,
    /// Lists or counts resources.
    Search,
    /// Starts, cancels or deletes a run of a thread, answers a question, or sends a signal. A user also needs this
    /// right for [`Resource::Threads`] to create a cron, and to send a request with the parameter
    /// `cancel_on_disconnect`.
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
    /// The namespace in the store for [`Resource::Store`]. Empty for other resources.
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
    /// Grants access to all resources of the requested kind.
    Allow,
    /// Grants access to the resources whose metadata contains these values. The server adds the values to new
    /// resources. To the user, other resources appear not to exist. Exceptions are the default assistants of graphs,
    /// which all users can read. For the store, `Only` means `Allow`, because items have no metadata.
    Only(Map<String, Value>),
    /// Refuses the request with status 403.
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
    /// Returns the user who sent the request. The server does not call this method for `/ok`, `/info`, `/metrics`,
    /// `/docs`, `/openapi.json` and the pages of the studio, which are public.
    ///
    /// # Errors
    ///
    /// The server sends the error to the client. For an unknown user, return [`ApiError::unauthenticated`].
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError>;

    /// Decides if a user may carry out an action.
    ///
    /// By default, a user has access to the threads, assistants and crons that the user created. Their metadata names
    /// the user as `owner`. In the store, a user has access to the namespaces that start with the user's
    /// [`store_label`](User::store_label).
    async fn authorize(&self, user: &User, access: Access<'_>) -> Decision {
        owned(user, access)
    }
}

fn owned(user: &User, access: Access<'_>) -> Decision {
    if access.resource == Resource::Store {
        let is_own = access.namespace.first().is_some_and(|label| *label == user.store_label());
        return if is_own { Decision::Allow } else { Decision::Deny };
    }
    Decision::Only(Map::from_iter([("owner".to_owned(), Value::from(user.identity.clone()))]))
}

/// Grants all rights to every client. Used if no other authentication is set.
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
