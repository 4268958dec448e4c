//! The tools of `hier-mcp` as a part of hier's own server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_mcp::McpClient;
use hier_mcp_tests::agent::{Helper, answers, desk};
use hier_server::Running;
use hier_server::auth::{Tokens, User};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    place: String,
    booking: String,
}

graph! {
    /// Books a trip.
    Book<Trip> = Graph { nodes: [book], edges: [START >> book >> END] }
}

async fn book(state: &Trip) -> TripUpdate {
    Trip::update().booking(format!("a room in {}", state.place))
}

/// Records of endless calls.
#[derive(Clone, Debug, Default)]
struct Calls {
    begun: Arc<Notify>,
    dropped: Arc<AtomicUsize>,
}

graph! {
    /// Waits for ever.
    Wait<Trip, Calls> = Graph { nodes: [wait], edges: [START >> wait >> END] }
}

async fn wait(run: &Run<Calls>) {
    struct DropCounter(Arc<AtomicUsize>);
    impl Drop for DropCounter {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _counter = DropCounter(run.context().dropped.clone());
    run.context().begun.notify_one();
    std::future::pending::<()>().await;
}

/// Both servers in one, at one address, which ask for one token.
async fn serve(calls: &Calls) -> (Running, String) {
    let server = hier_server::Server::new();
    let tools =
        hier_mcp::McpServer::new().graph("book", Book::compile(), ()).graph("wait", Wait::compile(), calls.clone());
    let tools = tools.router(server.stopping()).unwrap();
    let server = server.graph("book", Book::compile(), ()).routes(tools);
    let users = [("secret", User::new("alice")), ("another", User::new("bob"))];
    let server = server.auth(Tokens::new(users)).rate_limit(100_000);
    let running = server.start("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", running.address());
    (running, url)
}

fn client(url: &str, token: &str) -> McpClient {
    McpClient::http("trips", format!("{url}/mcp")).bearer(token).build().unwrap()
}

#[tokio::test]
async fn tool_is_called_at_the_server_that_serves_the_graph() {
    let (running, url) = serve(&Calls::default()).await;
    let context = desk(
        &client(&url, "secret"),
        [Message::call("book", json!({"place": "Rome"})), Message::assistant("It is booked.")],
    );
    let out = Helper::compile().invoke(Message::user("Book a room.")).context(context).await.unwrap();
    let answer: Value = serde_json::from_str(&answers(&out)[0]).unwrap();
    assert_eq!(answer, json!({"place": "Rome", "booking": "a room in Rome"}));

    // The graph is there, too.
    let run = json!({"assistant_id": "book", "input": {"place": "Oslo"}});
    let request = reqwest::Client::new().post(format!("{url}/runs/wait")).bearer_auth("secret").json(&run);
    let state: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(state["booking"], "a room in Oslo");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn server_authenticates_tool_calls() {
    let (running, url) = serve(&Calls::default()).await;
    let refused = client(&url, "guessed").connect().await.unwrap_err().to_string();
    assert!(refused.contains("the MCP server `trips` cannot be reached"), "{refused}");
    client(&url, "secret").connect().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn call_ends_with_the_server() {
    let calls = Calls::default();
    let (running, url) = serve(&calls).await;
    let context = desk(&client(&url, "secret"), [Message::call("wait", json!({})), Message::assistant("Done.")]);
    let call = async move { Helper::compile().invoke(Message::user("Wait.")).context(context).await };
    let call = tokio::spawn(call);
    calls.begun.notified().await;
    running.stop().await.unwrap();
    call.await.unwrap().unwrap_err();
    assert_eq!(calls.dropped.load(Ordering::SeqCst), 1, "its run is cancelled");
}

/// A request of a client that knows sessions; the status, the session that it is given, and the text.
async fn asked(url: &str, token: &str, session: Option<&str>, body: &Value) -> (u16, Option<String>, String) {
    asked_by(&reqwest::Client::new(), url, token, session, body).await
}

/// Sends the requests with a client that reuses its connections.
async fn asked_by(
    client: &reqwest::Client,
    url: &str,
    token: &str,
    session: Option<&str>,
    body: &Value,
) -> (u16, Option<String>, String) {
    let request = client.post(format!("{url}/mcp")).bearer_auth(token);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = match session {
        Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18"),
        None => request,
    };
    let answer = request.json(body).send().await.unwrap();
    let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    (answer.status().as_u16(), session, answer.text().await.unwrap())
}

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

#[tokio::test]
async fn session_belongs_to_its_user() {
    let (running, url) = serve(&Calls::default()).await;
    let (status, session, text) = asked(&url, "secret", None, &initialize()).await;
    assert_eq!(status, 200, "{text}");
    let session = session.unwrap();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(asked(&url, "secret", Some(&session), &initialized).await.0, 202);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let absent = asked(&url, "another", Some("00000000-0000-4000-8000-000000000000"), &list).await;
    assert_eq!(absent.0, 404, "{absent:?}");
    assert_eq!(asked(&url, "another", Some(&session), &list).await, absent, "it looks absent to another user");
    let delete = reqwest::Client::new().delete(format!("{url}/mcp")).bearer_auth("another");
    let deleted = delete.header("mcp-session-id", &session).send().await.unwrap();
    assert!(!deleted.text().await.unwrap().contains("book"));
    let (status, _, text) = asked(&url, "secret", Some(&session), &list).await;
    assert!(status == 200 && text.contains("book"), "its own user still has it: {status} {text}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn user_has_a_bounded_number_of_sessions() {
    let (running, url) = serve(&Calls::default()).await;
    let (mut begun, client) = (0, reqwest::Client::new());
    loop {
        let (status, _, text) = asked_by(&client, &url, "secret", None, &initialize()).await;
        match status {
            200 => begun += 1,
            429 => break assert!(text.contains("too many sessions"), "{text}"),
            _ => panic!("{status} {text}"),
        }
    }
    assert_eq!(begun, 1_000);
    assert_eq!(asked(&url, "another", None, &initialize()).await.0, 200, "another user is not held up");
    running.stop().await.unwrap();
}

/// Serves this router, in which a layer of the program may identify the user.
async fn mounted(server: hier_mcp::McpServer, user: Option<&'static str>) -> (u16, String) {
    let mut router = server.router(hier_core::CancellationToken::new()).unwrap();
    if let Some(name) = user {
        router = router.layer(axum::Extension(hier_core::Identity(name.into())));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (status, _, text) = asked(&url, "secret", None, &initialize()).await;
    (status, text)
}

#[tokio::test]
async fn router_refuses_requests_without_authentication() {
    let server = || hier_mcp::McpServer::new().graph("book", Book::compile(), ());
    let (status, text) = mounted(server(), None).await;
    assert!(text.contains("authenticate them in the surrounding server"), "{text}");
    assert!(text.contains("set a token with `McpServer::bearer`, or call `McpServer::without_auth`"), "{text}");
    assert_eq!(status, 403);
    for (server, user) in
        [(server(), Some("alice")), (server().bearer("secret"), None), (server().without_auth(), None)]
    {
        let (status, text) = mounted(server, user).await;
        assert_eq!(status, 200, "{text}");
    }
    assert_eq!(mounted(server().bearer("other"), Some("alice")).await.0, 401);
}

#[test]
fn two_graphs_with_one_name_are_refused() {
    let server = hier_mcp::McpServer::new().graph("book", Book::compile(), ()).graph("book", Book::compile(), ());
    let error = server.router(hier_core::CancellationToken::new()).expect_err("a mistake").to_string();
    assert!(error.contains("two graphs have the name `book`"), "{error}");
}
