//! The engine refuses a value that cannot be read back from its stored form, in each record that would hold it.

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use hier_core::{Durability, StateUpdate};

/// Can be read back only if it has a tag, because the field is left out without a tag and has no default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Finding {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

fn finding<const N: usize>(tags: [&str; N]) -> Finding {
    Finding { tags: tags.map(String::from).to_vec() }
}

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Case {
    #[reducer(append)]
    findings: Vec<Finding>,
    best: Option<Finding>,
    #[channel(secret)]
    hidden: Option<Finding>,
}

async fn ask(run: &Run) -> hier_core::Result<CaseUpdate> {
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Case::update())
}

async fn find() -> CaseUpdate {
    Case::update().best(Some(finding([])))
}

graph! { AskAndFind<Case> = Graph { nodes: [ask, find], edges: [START >> [ask, find] >> END] } }

async fn copy(case: &Case) -> CaseUpdate {
    Case::update().best(case.findings.first().cloned())
}

graph! { Copying<Case> = Graph { nodes: [copy], edges: [START >> copy >> END] } }

fn all_in(error: &RunError, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

const REASON: &str = "cannot be read back from its serialized form";

#[tokio::test]
async fn result_next_to_an_open_question_is_refused() {
    let graph = AskAndFind::compile().checkpointer(MemorySaver::new());
    let error = graph.invoke(Case::update()).thread("t").await.unwrap_err();
    all_in(&error, &["`find`", "channel `best`", REASON]);
    assert_eq!(graph.state("t").await.unwrap().values.best, None);
}

#[tokio::test]
async fn input_is_refused_with_each_durability() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = AskAndFind::compile().checkpointer(MemorySaver::new());
        for (input, channel) in [
            (Case::update().best(Some(finding([]))), "channel `best`"),
            (Case::update().findings([finding([])]), "channel `findings`"),
            (Case::update().hidden(Some(finding([]))), "channel `hidden`"),
        ] {
            let is_secret = channel.contains("hidden");
            let error = graph.invoke(input).thread("t").durability(durability).await.unwrap_err();
            all_in(&error, &[channel, if is_secret { "secret" } else { REASON }]);
            assert!(!is_secret || !error.to_string().contains("tags"), "{error}");
            assert!(graph.states("t").await.unwrap().is_empty(), "{durability:?}");
        }
    }
}

/// Values of the same channels were read back before, so the type alone does not decide.
#[tokio::test]
async fn later_value_is_refused() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = Copying::compile().checkpointer(MemorySaver::new());
        let run =
            |findings: Vec<Finding>| graph.invoke(Case::update().findings(findings)).thread("t").durability(durability);
        let _ = run(vec![finding(["a"])]).await.unwrap();
        all_in(&run(vec![finding([])]).await.unwrap_err(), &["channel `findings`", REASON]);
        let update = StateUpdate::update(Case::update().findings([finding([])]));
        all_in(&graph.update_state("t", update).await.unwrap_err(), &["channel `findings`", REASON]);
        let state = graph.state("t").await.unwrap();
        assert_eq!((state.values.findings.len(), state.values.best), (1, Some(finding(["a"]))), "{durability:?}");
        assert_eq!(run(vec![finding(["b"])]).await.unwrap().state().findings.len(), 2);
    }
}

/// The state of a subgraph that examines one finding.
#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Part {
    best: Option<Finding>,
}

async fn look() -> PartUpdate {
    Part::update()
}

fn parts(case: &Case) -> Vec<Part> {
    case.findings.iter().map(|_| Part { best: Some(finding([])) }).collect()
}

graph! { Looking<Part> = Graph { nodes: [look], edges: [START >> look >> END] } }
graph! {
    Sending<Case> = Graph {
        nodes: [copy, Looking],
        edges: [START >> copy >> for part in parts { Looking(part) }, Looking >> END],
    }
}

#[tokio::test]
async fn state_that_is_sent_to_a_graph_is_refused() {
    let graph = Sending::compile().checkpointer(MemorySaver::new());
    let error = graph.invoke(Case::update().findings([finding(["a"])])).thread("t").await.unwrap_err();
    all_in(&error, &["channel `best`", REASON]);
    assert_eq!(graph.state("t").await.unwrap().values.findings.len(), 1);
}
