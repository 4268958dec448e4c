//! `input:` and `output:` views of a graph, and views as arguments of nodes.

use hier_core::Event;
use hier_core::prelude::*;
use hier_core::state::RemainingSteps;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    question: String,
    #[reducer(append)]
    notes: Vec<String>,
    answer: Option<String>,
    remaining_steps: RemainingSteps,
}

/// The input of the graph.
#[derive(View, Clone)]
#[view(of = Case)]
struct Question {
    question: String,
    notes: Vec<String>,
}

/// The output of the graph.
#[derive(View, Debug, PartialEq)]
#[view(of = Case)]
struct Answer {
    answer: Option<String>,
}

/// The view of a node.
#[derive(View)]
#[view(of = Case)]
struct Asked<'a> {
    question: &'a String,
    notes: &'a Vec<String>,
    remaining_steps: &'a RemainingSteps,
}

async fn note(asked: Asked<'_>) -> CaseUpdate {
    Case::update().notes([format!("{} after {} notes", asked.question, asked.notes.len())])
}

async fn answer(asked: Asked<'_>, state: &Case) -> CaseUpdate {
    let text = format!("{} ({} left)", state.notes.join(", "), asked.remaining_steps.get());
    Case::update().answer(text)
}

graph! {
    Asks<Case> = Graph {
        nodes: [note, answer],
        edges: [START >> note >> answer >> END],
        input: Question,
        output: Answer,
    }
}

graph! { Outer<Case> = Graph { nodes: [Asks], edges: [START >> Asks >> END] } }

#[tokio::test]
async fn graph_takes_and_returns_its_views() {
    let question = Question { question: "why".to_owned(), notes: vec!["so".to_owned()] };
    let config = Config::new().recursion_limit(9);
    let out = Asks::compile().invoke(question.clone()).config(config.clone()).await.unwrap();
    let expected = Answer { answer: Some("so, why after 1 notes (7 left)".to_owned()) };
    assert_eq!(out, Outcome::Finished(expected));

    let mut events = Asks::compile().stream(question).config(config).modes([StreamMode::Values]);
    let mut values = Vec::new();
    while let Some(event) = events.next().await {
        let Event::Values(state) = event.unwrap() else { panic!("only values were asked for") };
        values.push((state.notes.len(), state.answer.is_some()));
    }
    assert_eq!(values, [(1, false), (2, false), (2, true)], "events have the whole state");
    assert!(events.outcome().await.unwrap().state().answer.is_some());
}

#[tokio::test]
async fn views_do_not_narrow_shared_channels_of_subgraphs() {
    let input = Case::update().question("how").notes(["well".to_owned()]);
    let out = Outer::compile().invoke(input).recursion_limit(9).await.unwrap();
    assert_eq!(out.state().notes, ["well", "how after 1 notes"]);
    assert_eq!(out.state().answer.as_deref(), Some("well, how after 1 notes (7 left)"));
}
