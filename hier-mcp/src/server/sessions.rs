//! HTTP sessions of clients. Each session belongs to the user that started it, and the number of sessions per user is
//! limited.

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

/// The maximum number of sessions of a user. Each session takes about 50 kB until it has been idle for five minutes.
const MOST: usize = 1_000;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The sender of a request: the user that the surrounding server identified, or the holder of a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionOwner(Arc<str>);

impl SessionOwner {
    fn of_request(request: &Request) -> Self {
        if let Some(Identity(name)) = request.extensions().get() {
            return Self(format!("user {name}").into());
        }
        let token = request.headers().get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        Self(format!("token {}", String::from_utf8_lossy(token)).into())
    }

    /// Returns the sender of the request. On standard input and output all requests have the same sender.
    pub(crate) fn of_context(context: &RequestContext<RoleServer>) -> Self {
        let owner = context.extensions.get::<axum::http::request::Parts>().and_then(|parts| parts.extensions.get());
        owner.cloned().unwrap_or_else(|| Self("".into()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<SessionOwners>,
}

#[derive(Default)]
struct SessionOwners {
    sessions: HashMap<String, SessionOwner>,
    /// The number of open requests of each owner that may start a session.
    beginning: HashMap<SessionOwner, usize>,
}

/// A request that may start a session.
struct SessionPermit<'a>(&'a Sessions, SessionOwner);

impl Drop for SessionPermit<'_> {
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

    fn owners(&self) -> std::sync::MutexGuard<'_, SessionOwners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a permit for one more session, or `None` at the limit.
    async fn try_begin(&self, owner: &SessionOwner) -> Option<SessionPermit<'_>> {
        let alive = self.manager.sessions.read().await;
        let mut owners = self.owners();
        owners.sessions.retain(|id, _| alive.contains_key(id.as_str()));
        let has = owners.sessions.values().filter(|of| *of == owner).count();
        let count = owners.beginning.entry(owner.clone()).or_default();
        *count += 1;
        let is_full = has + *count > MOST;
        drop((owners, alive));
        let place = SessionPermit(self, owner.clone());
        (!is_full).then_some(place)
    }

    fn is_of(&self, session: &str, owner: &SessionOwner) -> bool {
        self.owners().sessions.get(session) == Some(owner)
    }
}

/// Adds the owner to the request, and hides sessions of other users.
pub(super) async fn guard(sessions: Arc<Sessions>, mut request: Request, next: Next) -> Response {
    let owner = SessionOwner::of_request(&request);
    request.extensions_mut().insert(owner.clone());
    let named = request.headers().get(SESSION).map(|id| id.to_str().unwrap_or_default().to_owned());
    if let Some(id) = named {
        // The response to a request for another user's session equals the response for an ended session.
        if !sessions.is_of(&id, &owner)
            && let Ok(nobodys) = HeaderValue::from_str(&Uuid::new_v4().to_string())
        {
            request.headers_mut().insert(SESSION, nobodys);
        }
        return next.run(request).await;
    }
    let Some(_place) = sessions.try_begin(&owner).await else {
        return (StatusCode::TOO_MANY_REQUESTS, "too many sessions: end one, or wait until some have been idle")
            .into_response();
    };
    let response = next.run(request).await;
    if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
        sessions.owners().sessions.insert(id.to_owned(), owner);
    }
    response
}
