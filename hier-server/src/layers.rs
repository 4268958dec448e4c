//! What happens around each request: who asks, how much they may ask, and what is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hier_core::Identity;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::{Admission, Rates};
use crate::app::App;
use crate::auth::{Credentials, User};
use crate::error::ApiError;
use crate::studio;

/// Routes that everybody may look at.
const OPEN: [&str; 5] = ["/ok", "/info", "/metrics", "/docs", "/openapi.json"];

/// What is around every request.
pub(crate) struct Around {
    app: Arc<App>,
    rates: Arc<Rates>,
    /// For so many requests at once.
    room: Arc<Semaphore>,
}

impl Around {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let limits = app.limits;
        let room = Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)));
        Self { app, rates: Arc::new(Rates::new(limits.rate, limits.rate_is_given)), room }
    }
}

/// Answers a request: as one of so many at once, counted, in time, for those whom it knows. One layer, since each costs some boxes.
pub(crate) async fn around(State(around): State<Arc<Around>>, request: Request, next: Next) -> Response {
    // What it holds is freed with the response, streams included.
    let Ok(place) = around.room.clone().try_acquire_owned() else {
        let error =
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server answers as many requests as it can: try again");
        return later(&error);
    };
    let place = Arc::new(place);
    let (method, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    let limit = around.app.limits.time;
    // What takes longer to begin an answer than the server allows is ended.
    let response = match tokio::time::timeout(limit, admitted(&around, &place, request, next)).await {
        Ok(response) => response,
        Err(_) => {
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "the answer took longer than the server allows").into_response()
        }
    };
    let route = route.as_ref().map_or("(none)", MatchedPath::as_str);
    around.app.metrics.count(method.as_str(), route, response.status().as_u16());
    response.map(|body| Body::new(Held { body, _place: place }))
}

/// Answers those whom the server knows, and who do not ask too often.
async fn admitted(around: &Around, place: &Arc<OwnedSemaphorePermit>, mut request: Request, next: Next) -> Response {
    let too_many = || later(&ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests: try again in a second"));
    let path = request.uri().path();
    if !OPEN.contains(&path) && !studio::is_page(path) {
        let shown = around.rates.shown(request.headers());
        if around.rates.is_guessing(request.extensions(), shown) {
            return too_many();
        }
        let who = Credentials::new(request.method(), path, request.headers());
        match around.app.auth.authenticate(who).await {
            Ok(user) => {
                around.rates.note_valid(request.extensions(), shown);
                request.extensions_mut().insert(user);
            }
            Err(error) => {
                around.rates.note_wrong(request.extensions(), shown);
                return error.into_response();
            }
        }
    }
    let who = around.rates.who(request.extensions());
    if who.as_ref().is_some_and(|who| !around.rates.take(who, Instant::now())) {
        return too_many();
    }
    // A connection outlives its request.
    if request.headers().contains_key(header::UPGRADE) {
        Admission::put(&mut request, &around.rates, who, place);
    }
    next.run(request).await
}

/// Tells routes that are not the server's own who asks.
pub(crate) async fn identified(mut request: Request, next: Next) -> Response {
    let name = request.extensions().get::<User>().map(|user| user.identity.as_str()).filter(|name| !name.is_empty());
    if let Some(identity) = name.map(|name| Identity(name.into())) {
        request.extensions_mut().insert(identity);
    }
    next.run(request).await
}

/// A body that keeps its place until it has been sent.
struct Held {
    body: Body,
    _place: Arc<OwnedSemaphorePermit>,
}

impl HttpBody for Held {
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

/// A refusal that is over in a second.
fn later(error: &ApiError) -> Response {
    let mut response = error.clone().into_response();
    response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
    response
}

/// A handler has panicked: its text is logged, and not told.
#[allow(clippy::needless_pass_by_value)] // as the layer hands it over
pub(crate) fn panicked(payload: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    ApiError::internal(&format_args!("a handler panicked: {}", text.unwrap_or("no text"))).into_response()
}

/// Says what is not there in the words of the reference.
pub(crate) async fn not_found() -> ApiError {
    ApiError::not_found("Not Found")
}

/// The same of a route that has other methods.
pub(crate) async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}
