//! The middleware around all requests: limits, authentication, metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hier_core::Identity;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::{Admission, RateLimiter};
use crate::app::App;
use crate::auth::{Credentials, User};
use crate::error::ApiError;
use crate::upgrade::ConnectionPermit;

/// Routes of the API that need no authentication.
pub(crate) const PUBLIC_ROUTES: [&str; 5] = ["/ok", "/info", "/metrics", "/docs", "/openapi.json"];

/// Refuses requests that exceed a limit or that cannot be authenticated.
pub(crate) struct RequestGate {
    app: Arc<App>,
    rates: Arc<RateLimiter>,
    /// One permit for each request that is in progress.
    permits: Arc<Semaphore>,
    /// The routes of this server to which `GET` needs no authentication.
    public: Vec<&'static str>,
}

impl RequestGate {
    pub(crate) fn new(app: Arc<App>, public: Vec<&'static str>) -> Self {
        let limits = app.limits;
        let permits = Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)));
        Self { app, rates: Arc::new(RateLimiter::new(limits.rate, limits.rate_is_set)), permits, public }
    }

    /// Returns true if the request needs no authentication. Compares the route and not the path, because custom routes
    /// may have similar paths.
    fn is_public(&self, request: &Request) -> bool {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        [Method::GET, Method::HEAD].contains(request.method())
            && route.is_some_and(|route| self.public.contains(&route))
    }
}

/// Serves a request within the limits, and counts the response. This is a single layer, because each layer costs
/// several allocations.
pub(crate) async fn gate(State(gate): State<Arc<RequestGate>>, request: Request, next: Next) -> Response {
    // The permit is released with the response, streams included.
    let Ok(permit) = gate.permits.clone().try_acquire_owned() else {
        let error = ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server has reached its limit of concurrent requests: try again, or raise `Server::max_requests`",
        );
        return retry_later(&error);
    };
    let connection = request.extensions().get::<ConnectionPermit>().cloned();
    let (method, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    let limit = gate.app.limits.time;
    let response = match tokio::time::timeout(limit, authenticate(&gate, request, next)).await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the response took longer than the server allows: raise `Server::max_time`",
        )
        .into_response(),
    };
    let route = route.as_ref().map_or("(none)", MatchedPath::as_str);
    gate.app.metrics.count(&method, route, response.status().as_u16());
    match connection {
        Some(connection) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            // The connection lasts longer than the response, so it keeps the permit.
            connection.keep(permit);
            response
        }
        _ => response.map(|body| Body::new(PermitBody { body, _permit: permit })),
    }
}

/// Authenticates the request and checks the rate limit, then serves the request.
async fn authenticate(gate: &RequestGate, mut request: Request, next: Next) -> Response {
    let too_many =
        || retry_later(&ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests: try again in a second"));
    if !gate.is_public(&request) {
        let credentials = gate.rates.credentials(request.headers());
        if gate.rates.is_guessing(request.extensions(), credentials) {
            return too_many();
        }
        let presented = Credentials::new(request.method(), request.uri().path(), request.headers());
        match gate.app.auth.authenticate(presented).await {
            Ok(user) => {
                gate.rates.note_valid(request.extensions(), credentials);
                request.extensions_mut().insert(user);
            }
            Err(error) => {
                gate.rates.note_invalid(request.extensions(), credentials);
                return error.into_response();
            }
        }
    }
    let sender = gate.rates.sender(request.extensions());
    if sender.as_ref().is_some_and(|sender| !gate.rates.try_take(sender, Instant::now())) {
        return too_many();
    }
    if request.headers().contains_key(header::UPGRADE) {
        Admission::attach(&mut request, &gate.rates, sender);
    }
    next.run(request).await
}

/// Adds the user's identity to a request for a custom route.
pub(crate) async fn add_identity(mut request: Request, next: Next) -> Response {
    let name = request.extensions().get::<User>().map(|user| user.identity.as_str()).filter(|name| !name.is_empty());
    if let Some(identity) = name.map(|name| Identity(name.into())) {
        request.extensions_mut().insert(identity);
    }
    next.run(request).await
}

/// A body that holds the permit of its request until it has been sent.
struct PermitBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Responds with an error after which the client may try again in a second.
fn retry_later(error: &ApiError) -> Response {
    let mut response = error.clone().into_response();
    response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
    response
}

/// Responds to a panic of a handler. Logs the text of the panic, which the client does not receive.
#[allow(clippy::needless_pass_by_value)] // the signature that the layer expects
pub(crate) fn respond_to_panic(payload: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    ApiError::internal(&format_args!("a handler panicked: {}", text.unwrap_or("no text"))).into_response()
}

/// Responds to requests with an unknown path, in LangGraph's words.
pub(crate) async fn not_found() -> ApiError {
    ApiError::not_found("Not Found")
}

/// Responds to requests with a known path but another method.
pub(crate) async fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}
