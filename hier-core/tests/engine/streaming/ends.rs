//! Ends of streams: an error, and the outcome with or without the events.

use super::*;

async fn fails() -> hier_core::Result<()> {
    Err(NodeError::new("no"))
}

graph! { Fails<Trace> = Graph { nodes: [a = node, fails], edges: [START >> a >> fails >> END] } }
graph! { Fine<Trace> = Graph { nodes: [a = node], edges: [START >> a >> END] } }

#[tokio::test]
async fn error_is_the_last_item() {
    let mut events = Fails::compile().stream(Trace::update()).modes(ALL);
    let mut received = Vec::new();
    let error = loop {
        match events.next().await.expect("an error comes before the end") {
            Ok(event) => received.push(short(&event)),
            Err(error) => break error,
        }
    };
    assert_eq!(received, ["start a", "updates a", "end a", "values a", "start fails", "end fails"]);
    assert!(matches!(error, RunError::Node { node, .. } if node == "fails"));
    assert!(events.next().await.is_none());
    assert!(events.next().await.is_none(), "the end stays the end");
    assert!(events.outcome().await.is_err());
}

#[tokio::test]
async fn outcome_is_available_with_or_without_events() {
    let out = Fine::compile().stream(Trace::update()).modes(ALL).outcome().await.unwrap();
    assert_eq!(out.state().log, ["a"]);
    let mut events = Fine::compile().stream(Trace::update()).modes(ALL);
    while events.next().await.is_some() {}
    assert!(events.outcome().await.unwrap().is_finished());
    let error = Fails::compile().stream(Trace::update()).modes(ALL).outcome().await.unwrap_err();
    assert!(matches!(error, RunError::Node { .. }));
    let error = Fine::compile().stream(()).modes(ALL).outcome().await.unwrap_err();
    assert!(matches!(error, RunError::EmptyInput { .. }));
}
