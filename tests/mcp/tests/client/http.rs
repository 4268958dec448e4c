//! Servers over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use axum::{Json, Router};
use hier_agents::Toolset;
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
    serve_until_aborted(router).await.0
}

async fn serve_until_aborted(router: Router) -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}"), serving)
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

/// A server with sessions, which it loses if it is restarted.
#[derive(Default)]
struct Sessions {
    peer: Peer,
    /// The current session. Empty if there is none.
    session: String,
    begun: usize,
    /// Makes the server lose the session before it handles the next request with this method.
    losing: &'static str,
    /// Answers a request with an unknown session as many servers do, instead of with status 404.
    is_lax: bool,
    /// The methods of the requests that the server has handled.
    handled: Vec<String>,
}

type Shared = Arc<Mutex<Sessions>>;

async fn in_session(State(server): State<Shared>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let mut server = server.lock().unwrap();
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        server.begun += 1;
        server.session = format!("s-{}", server.begun);
        let Act::Answer(answer) = server.peer.act(&message) else { panic!("an answer") };
        return ([("mcp-session-id", server.session.clone())], Json(answer)).into_response();
    }
    if method == server.losing {
        server.losing = "";
        server.session.clear();
        server.peer.changed.store(true, Ordering::Relaxed);
    }
    if headers.get("mcp-session-id").is_none_or(|session| *session != *server.session) {
        if !server.is_lax {
            return StatusCode::NOT_FOUND.into_response();
        }
        let error = json!({"code": -32_000, "message": "Bad Request: No valid session ID provided"});
        return (StatusCode::BAD_REQUEST, Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response();
    }
    server.handled.push(method.to_owned());
    match server.peer.act(&message) {
        Act::Answer(answer) => Json(answer).into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// A restarted server has no sessions, and may have other tools.
#[tokio::test]
async fn ended_session_is_replaced() {
    for (is_lax, losing) in [(false, "tools/list"), (false, "tools/call"), (true, "tools/list"), (true, "tools/call")] {
        let server = Shared::default();
        (server.lock().unwrap().peer.old, server.lock().unwrap().is_lax) = (true, is_lax);
        let url = serve(Router::new().route("/mcp", post(in_session)).with_state(server.clone())).await;
        let client = McpClient::http("peer", format!("{url}/mcp")).call_timeout(Duration::from_secs(20));
        let client = client.timeout(Duration::from_secs(20)).build().unwrap();
        assert_eq!(called(&client, "echo", json!({"text": "one"})).await.unwrap(), "one");
        // The list of tools is cached, because the server reports changes.
        client.close().await;
        server.lock().unwrap().losing = losing;
        assert_eq!(called(&client, "echo", json!({"text": "two"})).await.unwrap(), "two", "{is_lax} {losing}");
        assert_eq!(called(&client, "fresh", json!({"text": "new"})).await.unwrap(), "new", "{is_lax} {losing}");
        let server = server.lock().unwrap();
        assert_eq!(server.handled.iter().filter(|method| *method == "tools/call").count(), 3);
        assert_eq!(server.begun, 3);
    }
}

/// A server or a proxy that refuses a request without reading it does not know the id of the request.
#[tokio::test]
async fn refusals_without_an_id_and_unread_requests_are_reported() {
    let refused = async |Json(message): Json<Value>| match Peer::default().act(&message) {
        _ if message["method"] == "tools/call" => {
            let error =
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_000, "message": "Bad Request: no."}});
            (StatusCode::BAD_REQUEST, Json(error)).into_response()
        }
        _ if message["method"] == "resources/read" => {
            (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]).into_response()
        }
        Act::Answer(answer) => Json(answer).into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    };
    let (url, serving) = serve_until_aborted(Router::new().route("/mcp", post(refused))).await;
    let client = McpClient::http("peer", format!("{url}/mcp")).call_timeout(Duration::from_secs(20)).build().unwrap();
    assert_eq!(called(&client, "echo", json!({})).await.unwrap(), "Error: Bad Request: no.");
    // The server has not executed this request.
    let limited = client.read("memo:1").await.unwrap_err();
    assert!(limited.is_transient() && limited.to_string().contains("429"), "{limited}");
    // The server has not received this request.
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    let unreachable = client.read("memo:1").await.unwrap_err();
    assert!(unreachable.is_transient() && unreachable.to_string().contains("cannot be reached"), "{unreachable}");
}

/// A server that offers no tools is not asked for them.
#[tokio::test]
async fn server_without_tools_has_an_empty_list() {
    async fn refuse(Json(message): Json<Value>) -> Json<Value> {
        let discovered = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}},
            "ttlMs": 0, "cacheScope": "private",
        });
        Json(if message["method"] == "server/discover" {
            json!({"jsonrpc": "2.0", "id": message["id"], "result": discovered})
        } else {
            let error = json!({"code": -32601, "message": "Method not found"});
            json!({"jsonrpc": "2.0", "id": message["id"], "error": error})
        })
    }
    let url = format!("{}/mcp", serve(Router::new().route("/mcp", post(refuse))).await);
    let client = McpClient::http("peer", &url).build().unwrap();
    assert!(client.tools().await.unwrap().is_empty());
}
