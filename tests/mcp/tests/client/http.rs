//! Servers over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use axum::{Json, Router};
use hier_mcp::McpClient;
use hier_mcp_tests::{Act, Peer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::called;

async fn answer(State(peer): State<Arc<Peer>>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    if headers.get(header::AUTHORIZATION).is_none_or(|given| given != "Bearer secret") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match peer.act(&message) {
        Act::Answer(answer) | Act::After(_, answer) => Json(answer).into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn peer() -> String {
    serve(Router::new().route("/mcp", post(answer)).with_state(Arc::new(Peer::default()))).await
}

#[tokio::test]
async fn tools_are_called_with_the_token() {
    let url = format!("{}/mcp", peer().await);
    let client = McpClient::http("peer", &url).bearer("secret").build().unwrap();
    assert_eq!(called(&client, "echo", json!({"text": "hello"})).await.unwrap(), "hello");
    let client = McpClient::http("peer", &url).build().unwrap();
    assert!(client.connect().await.unwrap_err().to_string().contains("the MCP server `peer` cannot be reached"));
}

#[tokio::test]
async fn redirect_to_another_host_is_not_followed() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    let thief = async move || {
        count.fetch_add(1, Ordering::Relaxed);
        StatusCode::OK
    };
    let other = serve(Router::new().route("/mcp", post(thief))).await;
    let redirect = async move || Redirect::temporary(&format!("{other}/mcp"));
    let url = format!("{}/mcp", serve(Router::new().route("/mcp", post(redirect))).await);
    let client = McpClient::http("peer", url).bearer("secret").build().unwrap();
    client.connect().await.unwrap_err();
    assert_eq!(reached.load(Ordering::Relaxed), 0);

    // One on the same host is.
    let here = Router::new()
        .route("/mcp/", post(answer))
        .route("/mcp", post(async || Redirect::permanent("/mcp/")))
        .with_state(Arc::new(Peer::default()));
    let url = format!("{}/mcp", serve(here).await);
    let client = McpClient::http("peer", url).bearer("secret").build().unwrap();
    assert_eq!(called(&client, "echo", json!({"text": "here"})).await.unwrap(), "here");
}

#[tokio::test]
async fn message_that_is_too_large_is_not_read() {
    let url = format!("{}/mcp", peer().await);
    let client = McpClient::http("peer", url).bearer("secret").max_message(100_000).build().unwrap();
    let failed = called(&client, "long", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("`tools/call long`"), "{failed}");
    // A smaller message is read over the same connection.
    assert_eq!(called(&client, "echo", json!({"text": "short"})).await.unwrap(), "short");
}
