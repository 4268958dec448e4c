//! Which pages may use the server from a browser.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

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
        .max_age(Duration::from_secs(600));
    Ok(Some(layer))
}
