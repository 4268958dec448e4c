//! Questions that the client declines or never answers.

use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, Claim, Lease, MemorySaver, SaverError, SaverLayer};
use hier_core::{CancellationToken, Result, async_trait};
use hier_mcp::McpServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::ends::{eventually, pass, threads};
use crate::sessions::Session;
use crate::tasks::{ask, next_question, start, until};
use crate::{Book, Nights, Office, Trip, TripUpdate, accepted, call, post, serve, server};

fn declined(key: &str) -> Value {
    json!({ key: { "action": "decline" } })
}

fn is_declined(result: &Value) -> bool {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    result["isError"] == true && text.contains("the client declined a question that needs an answer")
}

#[tokio::test]
async fn declined_question_that_needs_an_answer_ends_the_call() {
    let saver = MemorySaver::new();
    let url = serve(server(&Office::default()).allow_task("book").saver(saver.clone())).await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    let state = &asked["result"]["requestState"];
    let ended = call(&url, json!({"name": "book", "inputResponses": declined("nights"), "requestState": state})).await;
    assert!(is_declined(&ended["result"]), "{ended}");

    let id = start(&url, "book").await;
    until(&url, &id, "input_required").await;
    ask(&url, "tasks/update", json!({"taskId": id, "inputResponses": declined("nights")})).await;
    let task = until(&url, &id, "completed").await;
    assert!(is_declined(&task["result"]), "{task}");

    // The server asks the client with an older protocol during the call.
    let mut session = Session::begin(&url).await;
    let mut calling = session.call("book", json!({"place": "Rome"})).await;
    let question = session.next(&mut calling).await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    session.respond(&question, json!({"action": "decline"})).await;
    let ended = session.next(&mut calling).await;
    assert!(is_declined(&ended["result"]), "{ended}");
    assert_eq!(threads(&saver).await.len(), 0);
}

graph! {
    /// Asks two questions at once.
    Pair<Trip> = Graph { nodes: [nights, wish], edges: [START >> nights >> END, START >> wish >> END] }
}

async fn nights(run: &Run) -> Result<TripUpdate> {
    let Nights { nights } = run.interrupt(&json!({"key": "nights", "message": "How many nights?"})).schema().await?;
    Ok(Trip::update().booking(format!("{nights} nights")))
}

async fn wish(run: &Run) -> Result<TripUpdate> {
    let wish: Option<String> = run.interrupt(&json!({"key": "wish", "message": "Any wishes?"})).await?;
    Ok(Trip::update().place(wish.unwrap_or_else(|| "anywhere".to_owned())))
}

/// Another answer has the wrong type.
#[tokio::test]
async fn declined_question_that_needs_no_answer_does_not_end_the_call() {
    let url = serve(McpServer::new().graph("pair", Pair::compile(), ())).await;
    let asked = call(&url, json!({"name": "pair", "arguments": {}})).await;
    let mut responses = accepted("nights", json!({"nights": "many"}));
    responses["wish"] = declined("wish")["wish"].clone();
    let state = &asked["result"]["requestState"];
    let again = call(&url, json!({"name": "pair", "inputResponses": responses, "requestState": state})).await;
    assert_eq!(again["result"]["inputRequests"]["nights"]["params"]["message"], "How many nights?", "{again}");
    responses["nights"] = accepted("nights", json!({"nights": 2}))["nights"].clone();
    let state = &again["result"]["requestState"];
    let done = call(&url, json!({"name": "pair", "inputResponses": responses, "requestState": state})).await;
    assert_eq!(done["result"]["structuredContent"], json!({"place": "anywhere", "booking": "2 nights"}), "{done}");
}

/// A saver with threads that expire at once, if they expire at all.
struct Hasty(MemorySaver);

#[async_trait]
impl SaverLayer for Hasty {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.0
    }

    async fn acquire(&self, thread: &str, mut claim: Claim) -> Result<Lease, SaverError> {
        claim.time_to_live = claim.time_to_live.map(|lives| lives.saturating_sub(Duration::from_hours(25)));
        self.0.acquire(thread, claim).await
    }
}

/// Answers are accepted for 24 hours.
#[tokio::test]
async fn thread_of_a_question_that_nobody_answers_expires() {
    let saver = MemorySaver::new();
    let url = serve(server(&Office::default()).saver(Hasty(saver.clone()))).await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    pass(Duration::from_hours(1)).await;
    eventually("the thread is deleted", async || threads(&saver).await.is_empty()).await;
}

/// An earlier process has left it.
#[tokio::test]
async fn expired_threads_are_deleted_when_the_server_starts() {
    let saver = MemorySaver::new();
    let book = Book::compile().checkpointer(saver.clone());
    let config = Config::new().thread("left").time_to_live(Duration::ZERO);
    let out = book.invoke(Trip::default()).config(config).context(Office::default()).await.unwrap();
    assert!(!out.is_finished());
    assert_eq!(threads(&saver).await.len(), 1);
    serve(server(&Office::default()).saver(saver.clone())).await;
    eventually("the thread is deleted", async || threads(&saver).await.is_empty()).await;
}

/// The state names the deadline. A wrong answer does not extend it.
#[tokio::test]
async fn state_of_a_question_stays_the_same_until_it_is_answered() {
    let url = serve(server(&Office::default())).await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    let state = &asked["result"]["requestState"];
    // An answer of the wrong form, and one of the wrong type.
    for responses in [json!({"nights": 3}), accepted("nights", json!({"nights": "many"}))] {
        let again = call(&url, json!({"name": "book", "inputResponses": responses, "requestState": state})).await;
        assert_eq!(again["result"]["requestState"], *state, "{again}");
    }
}

/// The node of the wish has its answer, and asks no more.
#[tokio::test]
async fn wrong_answer_does_not_extend_the_time_of_its_question() {
    let server = server(&Office::default()).graph("pair", Pair::compile(), ());
    let url = serve(server.allow_task("book").allow_task("pair")).await;
    for tool in ["book", "pair"] {
        let id = start(&url, tool).await;
        until(&url, &id, "input_required").await;
        pass(Duration::from_hours(23)).await;
        let mut responses = accepted("nights", json!({"nights": "many"}));
        if tool == "pair" {
            responses["wish"] = accepted("wish", json!({"answer": "a view"}))["wish"].clone();
        }
        ask(&url, "tasks/update", json!({"taskId": id, "inputResponses": responses})).await;
        let known = ["nights".to_owned(), "wish".to_owned()];
        assert_eq!(next_question(&url, &id, &known).await.0, "nights-2");
        pass(Duration::from_hours(1)).await;
        let ended = tokio::time::timeout(Duration::from_secs(5), until(&url, &id, "completed")).await;
        let task = ended.expect("the task ends");
        let text = task["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("no answer within 86400 s"), "{text}");
    }
}

/// The client with an older protocol is asked during the call. Less than 15 seconds pass, because the stream then needs
/// heartbeats, whose clock stands still.
#[tokio::test]
async fn wrong_answer_does_not_extend_the_time_of_a_call() {
    let url = serve(server(&Office::default()).question_timeout(Duration::from_secs(14))).await;
    let mut session = Session::begin(&url).await;
    let mut calling = session.call("book", json!({"place": "Rome"})).await;
    let question = session.next(&mut calling).await;
    pass(Duration::from_secs(7)).await;
    session.respond(&question, json!({"action": "accept", "content": {"nights": "many"}})).await;
    let again = session.next(&mut calling).await;
    assert_eq!(again["params"]["message"], question["params"]["message"], "{again}");
    pass(Duration::from_secs(7)).await;
    let ended = session.next(&mut calling).await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no answer within 14 s"), "{ended}");
}

graph! {
    /// Takes 23 hours to read an answer.
    Slow<Trip, Office> = Graph { nodes: [late, view], edges: [START >> late >> END, START >> view >> END] }
}

async fn view(run: &Run<Office>) -> Result<TripUpdate> {
    Ok(Trip::update().place(run.interrupt::<String>(&json!({"key": "view", "message": "Which view?"})).await?))
}

async fn late(run: &Run<Office>) -> Result<TripUpdate> {
    if run.context().begun.fetch_add(1, Ordering::SeqCst) > 0 {
        pass(Duration::from_hours(23)).await;
    }
    let Nights { nights } = run.interrupt(&json!({"key": "nights", "message": "How many nights?"})).schema().await?;
    Ok(Trip::update().booking(format!("{nights} nights")))
}

/// The first answers close one of the questions, so the other is asked with a new state.
#[tokio::test]
async fn wrong_answers_of_slow_runs_do_not_extend_the_time_of_a_question() {
    let saver = MemorySaver::new();
    let url = serve(McpServer::new().graph("slow", Slow::compile(), Office::default()).saver(saver.clone())).await;
    let asked = call(&url, json!({"name": "slow", "arguments": {}})).await;
    let mut responses = accepted("nights", json!({"nights": "many"}));
    responses["view"] = accepted("view", json!({"answer": "the sea"}))["view"].clone();
    let state = &asked["result"]["requestState"];
    let again = call(&url, json!({"name": "slow", "inputResponses": responses, "requestState": state})).await;
    let next = &again["result"]["requestState"];
    assert!(next.is_string() && next != state, "{again}");
    // The deadline passes while the run reads this answer.
    let ended = call(&url, json!({"name": "slow", "inputResponses": responses, "requestState": next})).await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("no answer within 86400 s"), "{ended}");
    assert_eq!(threads(&saver).await.len(), 0);
}

/// A router may be created in a runtime that ends before the router serves.
#[test]
fn expired_threads_are_deleted_in_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (saver, first) = (MemorySaver::new(), runtime());
    let office = Office::default();
    let router = first.block_on(async {
        let server = server(&office).without_auth().saver(saver.clone());
        server.router(CancellationToken::new()).unwrap()
    });
    drop(first);
    runtime().block_on(async {
        let book = Book::compile().checkpointer(saver.clone());
        let config = Config::new().thread("left").time_to_live(Duration::ZERO);
        assert!(!book.invoke(Trip::default()).config(config).context(office.clone()).await.unwrap().is_finished());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, router).into_future());
        post(&url, "tools/list", json!({}), json!({})).await;
        eventually("the thread is deleted", async || threads(&saver).await.is_empty()).await;
    });
}
