//! Which pages may use the server from a browser.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::error::ApiError;
use crate::failure::ServerError;

/// What clients read of an answer beside its body.
const EXPOSED: [HeaderName; 4] = [
    HeaderName::from_static("x-pagination-total"),
    HeaderName::from_static("x-pagination-next"),
    HeaderName::from_static("content-location"),
    HeaderName::from_static("location"),
];

/// The layer that lets these origins in; none if there are none.
pub(crate) fn layer(origins: &[String]) -> Result<Option<CorsLayer>, ServerError> {
    if origins.is_empty() {
        return Ok(None);
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let each = origins.iter().map(|origin| {
            let value = HeaderValue::from_str(origin).ok().filter(|_| origin.contains("://") && !origin.ends_with('/'));
            value.ok_or_else(|| ServerError::Origin { origin: origin.clone() })
        });
        AllowOrigin::list(each.collect::<Result<Vec<_>, _>>()?)
    };
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(methods)
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(Duration::from_mins(10));
    Ok(Some(layer))
}

/// Refuses what pages of other sites ask of a server that asks nobody who they are, because only this machine reaches it: the browsers
/// of this machine do, too. They send a simple request, or open a WebSocket, without asking first, and a site may let its own
/// name lead here.
pub(crate) async fn guarded(State(origins): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let refusal = refused(&request, &origins);
    match refusal {
        Some(text) => ApiError::new(StatusCode::FORBIDDEN, text).into_response(),
        None => next.run(request).await,
    }
}

fn refused(request: &Request, origins: &[String]) -> Option<&'static str> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    if host.as_ref().is_some_and(|host| !is_local(host.host())) {
        return Some(
            "nobody is asked who they are here, so the server is to be called by an address or as localhost: add `.auth(…)`, or \
             `.without_auth()` if something in front of it asks",
        );
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let is_allowed = !(changes || headers.contains_key(header::UPGRADE)) || is_of(headers, host.as_ref(), origins);
    (!is_allowed).then_some("pages of this origin may not use the server: name it with `.allow_origins([…])`")
}

/// Names that no other site can let lead here.
fn is_local(host: &str) -> bool {
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address || host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
}

/// Whether it comes from no page, from one of the server's own, or from one that is named.
fn is_of(headers: &HeaderMap, host: Option<&Authority>, origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let own = origin.split_once("://").is_some_and(|(_, place)| host.is_some_and(|host| host.as_str() == place));
    own || origins.iter().any(|known| known == "*" || known == origin)
}
