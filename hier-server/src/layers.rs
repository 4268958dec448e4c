//! What happens around each request: who asks, how much they may ask, and what is counted.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::auth::{Credentials, User};
use crate::error::ApiError;
use crate::studio;

/// Routes that everybody may look at.
const OPEN: [&str; 5] = ["/ok", "/info", "/metrics", "/docs", "/openapi.json"];

/// What is around every request.
pub(crate) struct Around {
    app: Arc<App>,
    rates: Rates,
    /// For so many requests at once.
    room: Arc<Semaphore>,
}

impl Around {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let limits = app.limits;
        let room = Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)));
        Self { app, rates: Rates::new(limits.rate, limits.rate_is_given), room }
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
    let (method, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
    let limit = around.app.limits.time;
    // What takes longer to begin an answer than the server allows is ended.
    let response = match tokio::time::timeout(limit, admitted(&around, request, next)).await {
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
async fn admitted(around: &Around, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !OPEN.contains(&path) && !studio::is_page(path) {
        let who = Credentials::new(request.method(), path, request.headers());
        match around.app.auth.authenticate(who).await {
            Ok(user) => drop(request.extensions_mut().insert(user)),
            Err(error) => return error.into_response(),
        }
    }
    if around.rates.admits(&request) {
        return next.run(request).await;
    }
    later(&ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests: try again in a second"))
}

/// A body that keeps its place until it has been sent.
struct Held {
    body: Body,
    _place: OwnedSemaphorePermit,
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

/// How many requests each user has left.
#[derive(Debug)]
struct Rates {
    each_second: f64,
    /// Whether programs on this machine are held to it, too.
    holds_for_all: bool,
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    fn new(each_second: u32, holds_for_all: bool) -> Self {
        Self { each_second: f64::from(each_second), holds_for_all, left: Mutex::default() }
    }

    /// Takes one; false if none is left.
    fn take(&self, who: &str, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who have all of theirs need not be remembered.
        if left.len() > 10_000 {
            let each = self.each_second;
            left.retain(|_, (tokens, at)| now.duration_since(*at).as_secs_f64().mul_add(each, *tokens) < each);
        }
        let (tokens, at) = left.entry(who.to_owned()).or_insert((self.each_second, now));
        *tokens = now.duration_since(*at).as_secs_f64().mul_add(self.each_second, *tokens).min(self.each_second);
        *at = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }

    /// Whether whoever sends this may ask now.
    fn admits(&self, request: &Request) -> bool {
        let user =
            request.extensions().get::<User>().map(|user| user.identity.as_str()).filter(|name| !name.is_empty());
        let address = request.extensions().get::<ConnectInfo<std::net::SocketAddr>>().map(|info| info.0.ip());
        if user.is_none() && !self.holds_for_all && address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        let who = user.map(str::to_owned).or(address.map(|address| address.to_string())).unwrap_or_default();
        self.take(&who, Instant::now())
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_asks_too_often_has_to_wait() {
        let (rates, now) = (Rates::new(2, true), Instant::now());
        assert!(rates.take("a", now) && rates.take("a", now));
        assert!(!rates.take("a", now));
        assert!(rates.take("b", now), "others are not held up");
        assert!(rates.take("a", now + Duration::from_millis(500)));
        assert!(!rates.take("a", now + Duration::from_millis(500)));
    }
}
