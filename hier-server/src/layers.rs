//! What happens around each request: who asks, how much they may ask, and what is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Extension;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::{Credentials, User};
use crate::error::ApiError;
use crate::options::Limits;
use crate::studio;

/// Routes that everybody may look at.
const OPEN: [&str; 5] = ["/ok", "/info", "/metrics", "/docs", "/openapi.json"];

/// Finds out who asks.
pub(crate) async fn authenticate(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !OPEN.contains(&path) && !studio::is_page(path) {
        let who = Credentials::new(request.method(), request.uri().path(), request.headers());
        match app.auth.authenticate(who).await {
            Ok(user) => {
                request.extensions_mut().insert(user);
            }
            Err(error) => return error.into_response(),
        }
    }
    next.run(request).await
}

/// Counts what was answered.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let method = request.method().as_str().to_owned();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let response = next.run(request).await;
    app.metrics.count(&method, route.as_deref().unwrap_or("(none)"), response.status().as_u16());
    response
}

/// Refuses what is more than the server does at once. What it holds is freed with the response, streams included.
pub(crate) async fn bounded(State(room): State<Arc<tokio::sync::Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(place) = room.try_acquire_owned() else {
        let error =
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server answers as many requests as it can: try again");
        return later(&error);
    };
    let response = next.run(request).await;
    // The place is kept until the body has been sent.
    response.map(|body| {
        let held = futures_util::StreamExt::map(body.into_data_stream(), move |part| {
            let _place = &place;
            part
        });
        axum::body::Body::from_stream(held)
    })
}

/// A refusal that is over in a second.
fn later(error: &ApiError) -> Response {
    let mut response = error.clone().into_response();
    response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
    response
}

/// How many requests each user has left.
#[derive(Debug)]
pub(crate) struct Rates {
    each_second: f64,
    /// Whether programs on this machine are held to it, too.
    holds_for_all: bool,
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    pub(crate) fn new(each_second: u32, holds_for_all: bool) -> Self {
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
}

/// Refuses users who ask too often.
pub(crate) async fn rated(State(rates): State<Arc<Rates>>, request: Request, next: Next) -> Response {
    let user = request.extensions().get::<User>().map(|user| user.identity.clone()).filter(|name| !name.is_empty());
    let address = request.extensions().get::<ConnectInfo<std::net::SocketAddr>>().map(|info| info.0.ip());
    let is_here = user.is_none() && address.is_some_and(|address| address.is_loopback());
    let who = user.or(address.map(|address| address.to_string())).unwrap_or_default();
    if (is_here && !rates.holds_for_all) || rates.take(&who, Instant::now()) {
        return next.run(request).await;
    }
    later(&ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too many requests: try again in a second"))
}

/// Ends what takes longer to begin an answer than the server allows.
pub(crate) async fn timely(Extension(limits): Extension<Limits>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limits.time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            ApiError::new(StatusCode::GATEWAY_TIMEOUT, "the answer took longer than the server allows").into_response()
        }
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
