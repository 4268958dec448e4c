//! Streams that clients join again: after an error of the database, and with other modes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_core::store::MemoryStore;
use hier_server::Server;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::graphs::{Talk, TalkUpdate, says_hello, server};
use crate::support::{Desk, Fate, HookedStore, SentEvent, StoreCall, names, open, parse, said};

async fn joined(desk: &Desk, path: &str, after: &str) -> Vec<SentEvent> {
    let request = desk.client.get(format!("{}{path}", desk.base)).header("last-event-id", after);
    let response = request.send().await.expect("a stream");
    assert_eq!(response.status(), StatusCode::OK);
    parse(&response.text().await.expect("a body"))
}

/// Starts a run with a resumable stream. Returns the path of the stream and its events.
async fn streamed(desk: &Desk, graph: &str, modes: &[&str]) -> (String, Vec<SentEvent>) {
    let thread = desk.thread().await;
    let input = if ["chat", "refused"].contains(&graph) { json!({ "messages": "Hello" }) } else { json!({ "n": 1.0 }) };
    let body = json!({ "assistant_id": graph, "input": input, "stream_mode": modes, "stream_resumable": true });
    let response = desk.send(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    let path = response.headers()["location"].to_str().expect("a path").to_owned();
    (path, parse(&response.text().await.expect("a body")))
}

#[tokio::test]
async fn error_of_the_database_does_not_end_a_stream_like_a_complete_one() {
    // The read of a run with this number fails. The numbers count down to 1.
    let reads = Arc::new(AtomicUsize::new(0));
    let store = HookedStore::new({
        let reads = reads.clone();
        let count_down = |reads: usize| reads.checked_sub(1);
        move |call| match call {
            StoreCall::LoadRun if reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down) == Ok(1) => {
                Fate::Refused
            }
            _ => Fate::Done,
        }
    });
    let desk = open(server().storage(store, Arc::new(MemoryStore::default()))).await;
    for (graph, last) in [("boom", "error"), ("hitl", "values")] {
        let (path, complete) = streamed(&desk, graph, &["values"]).await;
        assert_eq!(complete.last().expect("an event").event, last);
        let ids: Vec<&String> = complete.iter().filter_map(|event| event.id.as_ref()).collect();
        let after = ids[ids.len() - 2];
        let missing = &complete[complete.len() - 1..];
        assert_eq!(joined(&desk, &path, after).await, missing);
        // The request reads the run once, and the stream twice: before and after the last event.
        reads.store(3, Ordering::SeqCst);
        let failed = joined(&desk, &path, after).await;
        assert_eq!(reads.load(Ordering::SeqCst), 0);
        assert_eq!(names(&failed), ["error"]);
        assert_eq!((&failed[0].data["error"], &failed[0].id), (&json!("HTTPException"), &None), "{failed:?}");
        assert_eq!(joined(&desk, &path, after).await, missing, "the client tries again");
    }
    desk.stop().await;
}

const MODES: [&str; 9] =
    ["values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"];

/// After an event, a client reads on with another mode.
#[tokio::test]
async fn event_has_the_same_id_in_all_modes() {
    let desk = crate::support::desk().await;
    for graph in ["two", "hitl", "chat"] {
        let (path, all) = streamed(&desk, graph, &MODES).await;
        for mode in MODES {
            let path = format!("{path}?stream_mode={mode}");
            let of_mode = joined(&desk, &path, "-1").await;
            for event in &of_mode {
                assert!(all.contains(event), "{graph} {mode}: {event:?}");
            }
            for (place, last) in all.iter().enumerate() {
                let later: Vec<SentEvent> =
                    of_mode.iter().filter(|event| all[place + 1..].contains(event)).cloned().collect();
                let after = last.id.as_ref().expect("an id");
                assert_eq!(joined(&desk, &path, after).await, later, "{graph} {mode} after {after}");
            }
        }
        let ids: std::collections::BTreeSet<_> = all.iter().map(|event| &event.id).collect();
        assert_eq!(ids.len(), all.len(), "no two events have one id");
    }
    desk.stop().await;
}

/// The modes with which the run was created decide after which event a message in pieces is complete.
#[tokio::test]
async fn message_is_complete_once_for_a_client_that_joins_with_other_modes() {
    let desk = crate::support::desk().await;
    let modes: [&[&str]; 3] = [&["messages"], &["messages", "values"], &["messages", "events"]];
    for created_with in modes {
        let (path, all) = streamed(&desk, "chat", created_with).await;
        let of_messages = |events: Vec<SentEvent>| -> Vec<SentEvent> {
            events.into_iter().filter(|event| event.event.starts_with("messages/")).collect()
        };
        let all = of_messages(all);
        let complete = said(&all, "messages/complete").into_iter().filter(|data| data[0]["type"] == "ai");
        assert_eq!(complete.count(), 1, "{created_with:?}: {all:?}");
        for joined_with in modes {
            let query: Vec<String> = joined_with.iter().map(|mode| format!("stream_mode={mode}")).collect();
            let sent = joined(&desk, &format!("{path}?{}", query.join("&")), "-1").await;
            assert_eq!(of_messages(sent), all, "{created_with:?} {joined_with:?}");
        }
    }
    desk.stop().await;
}

graph! {
    /// Fails after two replies of its model.
    Refused<Talk, BaseContext> = Graph { nodes: [refuse], edges: [START >> refuse >> END] }
}

async fn refuse(run: &Run<BaseContext>) -> hier_core::Result<TalkUpdate> {
    let _ = run.model()?.ask([Message::user("hello")]).await?;
    let reply = run.model()?.ask([Message::user("hello again")]).await?;
    Err(NodeError::permanent(format!("refused: {}", reply.message.text())))
}

/// The messages belong to no update, because their node fails.
#[tokio::test]
async fn messages_of_a_failed_run_are_complete() {
    let served = Server::new().graph("refused", Refused::compile(), BaseContext::new(says_hello()));
    let desk = open(served).await;
    let (path, sent) = streamed(&desk, "refused", &["messages"]).await;
    assert!(names(&sent).contains(&"messages/partial"), "{sent:?}");
    let complete = said(&sent, "messages/complete");
    assert_eq!(complete.len(), 2, "{sent:?}");
    assert_eq!(complete[0][0]["content"], "Hello there friend");
    assert!(names(&sent).contains(&"error"), "{sent:?}");

    // In the stream of the thread, too, each event has its own id.
    let thread = path.split("/runs/").next().expect("a path");
    let request = desk.client.get(format!("{}{thread}/stream", desk.base)).header("last-event-id", "-1");
    let mut stream = request.send().await.expect("a stream");
    let is_done = |sent: &[SentEvent]| sent.iter().any(|event| event.data["status"] == "run_done");
    let sent = desk.until(&mut stream, &mut String::new(), is_done).await;
    let ids: std::collections::BTreeSet<_> = sent.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), sent.len(), "no two events have one id: {sent:?}");
    drop(stream);
    desk.stop().await;
}
