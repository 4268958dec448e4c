//! The tools of `hier-mcp` as a part of hier's own server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::prelude::*;
use hier_mcp::Client;
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

/// What happens to calls that do not end.
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
    struct Told(Arc<AtomicUsize>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _told = Told(run.context().dropped.clone());
    run.context().begun.notify_one();
    std::future::pending::<()>().await;
}

/// Both servers in one, at one address, which ask for one token.
async fn serve(calls: &Calls) -> (Running, String) {
    let server = hier_server::Server::new();
    let tools =
        hier_mcp::Server::new().graph("book", Book::compile(), ()).graph("wait", Wait::compile(), calls.clone());
    let tools = tools.router(server.stopping()).unwrap();
    let server = server.graph("book", Book::compile(), ()).routes(tools);
    let server = server.auth(Tokens::new([("secret", User::new("alice"))]));
    let running = server.start("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", running.address());
    (running, url)
}

fn client(url: &str, token: &str) -> Client {
    Client::http("trips", format!("{url}/mcp")).bearer(token).build().unwrap()
}

#[tokio::test]
async fn a_tool_is_called_at_the_server_that_serves_the_graph() {
    let (running, url) = serve(&Calls::default()).await;
    let context = desk(
        &client(&url, "secret"),
        [Message::call("book", json!({"place": "Rome"})), Message::assistant("It is booked.")],
    );
    let out = Helper::compile().invoke(Message::user("Book a room."), Config::default(), context).await.unwrap();
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
async fn the_server_asks_who_calls_a_tool() {
    let (running, url) = serve(&Calls::default()).await;
    let refused = client(&url, "guessed").connect().await.unwrap_err().to_string();
    assert!(refused.contains("the MCP server `trips` cannot be reached"), "{refused}");
    client(&url, "secret").connect().await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_ends_with_the_server() {
    let calls = Calls::default();
    let (running, url) = serve(&calls).await;
    let context = desk(&client(&url, "secret"), [Message::call("wait", json!({})), Message::assistant("Done.")]);
    let call = async move { Helper::compile().invoke(Message::user("Wait."), Config::default(), context).await };
    let call = tokio::spawn(call);
    calls.begun.notified().await;
    running.stop().await.unwrap();
    call.await.unwrap().unwrap_err();
    assert_eq!(calls.dropped.load(Ordering::SeqCst), 1, "its run is cancelled");
}
