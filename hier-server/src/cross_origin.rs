//! Decides which web pages may use the server from a browser.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::error::{ApiError, ApiResult};
use crate::failure::ServerError;

/// Headers that pages of other origins may read.
const EXPOSED: [HeaderName; 4] = [
    HeaderName::from_static("x-pagination-total"),
    HeaderName::from_static("x-pagination-next"),
    HeaderName::from_static("content-location"),
    HeaderName::from_static("location"),
];

/// The parameter of a stream that cancels its run when the client disconnects.
const CANCELS: &str = "cancel_on_disconnect";

/// Creates the layer that admits these origins, or returns `None` if the list is empty.
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

/// Refuses requests of foreign pages to a server without authentication. Only programs on this machine reach such a
/// server, but browsers are among them. For any page, a browser sends simple requests and opens a `WebSocket`. A site
/// could also resolve its own name to this machine.
pub(crate) async fn check_origin(State(origins): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    match refused(&request, &origins) {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    }
}

fn refused(request: &Request, origins: &[String]) -> Option<ApiError> {
    let host = match host(request) {
        Ok(host) => host,
        Err(error) => return Some(error),
    };
    if host.as_ref().is_some_and(|host| !is_local(host.host())) {
        return Some(ApiError::new(
            StatusCode::FORBIDDEN,
            "the server has no authentication and must be called by an IP address or as localhost: add `.auth(…)`, or \
             `.without_auth()` behind a proxy that authenticates",
        ));
    }
    let is_allowed = !changes(request) || is_of(request.headers(), host.as_ref(), origins);
    (!is_allowed).then(|| {
        let text = "pages of this origin may not use the server: allow it with `.allow_origins([…])`";
        ApiError::new(StatusCode::FORBIDDEN, text)
    })
}

/// Returns the host that a request names, or `None` if an old client names no host. Fails if the host cannot be parsed,
/// because a browser sends any name that a page uses.
fn host(request: &Request) -> ApiResult<Option<Authority>> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let (host, more) = (named.next(), named.next());
    let unreadable = || ApiError::bad_request("the request needs exactly one `Host` header with a name or an address");
    if more.is_some() {
        return Err(unreadable());
    }
    let parse = |host: &HeaderValue| host.to_str().ok()?.parse::<Authority>().ok();
    let host = host.map(|host| parse(host).ok_or_else(unreadable)).transpose()?;
    // An absolute address in the request line takes precedence over the header.
    Ok(request.uri().authority().cloned().or(host))
}

/// Returns true if a request has side effects, so that the origin of its page matters.
fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || request.headers().contains_key(header::UPGRADE)
        || cancels(request.uri())
}

/// Returns true if the query has the parameter [`CANCELS`], in any spelling that routes accept, or cannot be parsed.
fn cancels(uri: &Uri) -> bool {
    axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_or(true, |pairs| pairs.iter().any(|(name, _)| name.strip_suffix("[]").unwrap_or(name) == CANCELS))
}

/// Returns true for hosts that no other site can resolve to this machine.
fn is_local(host: &str) -> bool {
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address || host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
}

/// Returns true if the request comes from the server's pages or an allowed origin, or does not come from a page.
fn is_of(headers: &HeaderMap, host: Option<&Authority>, origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        // Browsers send no origin with a GET of an image or a link.
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        return site.is_none_or(|site| matches!(site, b"same-origin" | b"none"));
    };
    let Ok(origin) = origin.to_str() else { return false };
    let own = origin.split_once("://").is_some_and(|(_, place)| host.is_some_and(|host| host.as_str() == place));
    own || origins.iter().any(|known| known == "*" || known == origin)
}
