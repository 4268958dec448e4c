//! Sessions of clients over HTTP: each belongs to the user that began it, and a user has a bounded number of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hier_core::Identity;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use uuid::Uuid;

/// Maximum number of sessions of a user. Each takes about 50 kB until it has been idle for five minutes.
const MOST: usize = 1_000;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The sender of a request: the user that the surrounding server identified, or the holder of a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    fn of_request(request: &Request) -> Self {
        if let Some(Identity(name)) = request.extensions().get() {
            return Self(format!("user {name}").into());
        }
        let token = request.headers().get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        Self(format!("token {}", String::from_utf8_lossy(token)).into())
    }

    /// The sender of the request that a handler answers; the same for all over standard input and output.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let owner = context.extensions.get::<axum::http::request::Parts>().and_then(|parts| parts.extensions.get());
        owner.cloned().unwrap_or_else(|| Self("".into()))
    }

    /// Returns the name that identifies the owner.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// The sessions, by their owners.
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    sessions: HashMap<String, Owner>,
    /// Number of open requests of each owner that may still begin a session.
    beginning: HashMap<Owner, usize>,
}

/// A request that may begin a session.
struct Beginning<'a>(&'a Sessions, Owner);

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        let mut owners = self.0.owners();
        if let Some(count) = owners.beginning.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                owners.beginning.remove(&self.1);
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, owners: Mutex::default() }
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more session; none if the owner has too many.
    async fn begin(&self, owner: &Owner) -> Option<Beginning<'_>> {
        let alive = self.manager.sessions.read().await;
        let mut owners = self.owners();
        owners.sessions.retain(|id, _| alive.contains_key(id.as_str()));
        let has = owners.sessions.values().filter(|of| *of == owner).count();
        let count = owners.beginning.entry(owner.clone()).or_default();
        *count += 1;
        let is_full = has + *count > MOST;
        drop((owners, alive));
        let place = Beginning(self, owner.clone());
        (!is_full).then_some(place)
    }

    fn is_of(&self, session: &str, owner: &Owner) -> bool {
        self.owners().sessions.get(session) == Some(owner)
    }
}

/// Passes a request on, with who sends it.
pub(super) async fn guard(sessions: Arc<Sessions>, mut request: Request, next: Next) -> Response {
    let owner = Owner::of_request(&request);
    request.extensions_mut().insert(owner.clone());
    let named = request.headers().get(SESSION).map(|id| id.to_str().unwrap_or_default().to_owned());
    if let Some(id) = named {
        // The session of another user looks like one that has ended.
        if !sessions.is_of(&id, &owner)
            && let Ok(nobodys) = HeaderValue::from_str(&Uuid::new_v4().to_string())
        {
            request.headers_mut().insert(SESSION, nobodys);
        }
        return next.run(request).await;
    }
    let Some(_place) = sessions.begin(&owner).await else {
        return (StatusCode::TOO_MANY_REQUESTS, "too many sessions: end one, or wait until some have been idle")
            .into_response();
    };
    let response = next.run(request).await;
    if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
        sessions.owners().sessions.insert(id.to_owned(), owner);
    }
    response
}
