//! The files of the studio, which are compiled into the program.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::error::ApiError;

macro_rules! files {
    ($($name:literal $type:literal)+) => {
        /// The name, content type and content of each file.
        const FILES: &[(&str, &str, &str)] = &[$(($name, $type, include_str!(concat!("pages/", $name)))),+];
    };
}

files! {
    "index.html" "text/html; charset=utf-8"
    "style.css" "text/css; charset=utf-8"
    "icon.svg" "image/svg+xml"
    "main.js" "text/javascript; charset=utf-8"
    "api.js" "text/javascript; charset=utf-8"
    "dom.js" "text/javascript; charset=utf-8"
    "list.js" "text/javascript; charset=utf-8"
    "threads.js" "text/javascript; charset=utf-8"
    "records.js" "text/javascript; charset=utf-8"
    "service.js" "text/javascript; charset=utf-8"
    "graph.js" "text/javascript; charset=utf-8"
    "history.js" "text/javascript; charset=utf-8"
    "json.js" "text/javascript; charset=utf-8"
    "diff.js" "text/javascript; charset=utf-8"
    "state.js" "text/javascript; charset=utf-8"
    "chat.js" "text/javascript; charset=utf-8"
    "compose.js" "text/javascript; charset=utf-8"
    "form.js" "text/javascript; charset=utf-8"
    "live.js" "text/javascript; charset=utf-8"
    "events.js" "text/javascript; charset=utf-8"
}

/// The content security policy. It forbids other hosts, inline code, code from text, and frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Redirects to `/studio/`, because the addresses in the pages are relative to this path.
pub(super) async fn enter() -> Redirect {
    Redirect::permanent("/studio/")
}

pub(super) async fn index(headers: HeaderMap) -> Response {
    found("index.html", &headers)
}

pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    found(&name, &headers)
}

fn found(name: &str, asked: &HeaderMap) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return ApiError::not_found("Not Found").into_response();
    };
    let tag = tag(content);
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, &tag),
    ];
    if asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, *content).into_response()
}

/// Returns an entity tag for the content of a file.
fn tag(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
