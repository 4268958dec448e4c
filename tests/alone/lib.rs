//! All macros with nothing but `hier` among the dependencies: neither `hier-core` nor `serde` nor `schemars`.

use hier::prelude::*;

/// A case.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(crate = "hier::serde")]
pub struct Case {
    /// The question.
    pub question: String,
    /// The findings.
    #[reducer(append)]
    pub findings: Vec<String>,
}

/// The input of a run.
#[derive(View, Clone, Debug)]
#[view(of = Case)]
pub struct Question {
    /// The question.
    pub question: String,
}

/// The view of a node.
#[derive(View)]
#[view(of = Case)]
pub struct Asked<'a> {
    question: &'a String,
}

graph! {
    /// Answers a question.
    pub Desk<Case> = Graph {
        nodes: [look, again = look],
        edges: [START >> look >> if is_done { END } else { again }, again >> END],
        input: Question,
    }
}

async fn look(asked: Asked<'_>) -> CaseUpdate {
    Case::update().findings([format!("found: {}", asked.question)])
}

fn is_done(state: &Case) -> bool {
    !state.question.is_empty()
}

/// The place to search.
#[derive(JsonSchema, Debug, Deserialize)]
#[serde(crate = "hier::serde")]
pub struct Place {
    /// The year.
    pub year: u16,
}

/// Looks it up.
#[tool]
pub async fn look_up(#[args] place: Place) -> String {
    place.year.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn graph_runs_and_a_tool_has_its_schema() {
        let saver = Sqlite::in_memory().await.unwrap();
        let graph = Desk::compile().checkpointer(saver);
        let question = Question { question: "what?".to_owned() };
        let out = graph.invoke(question).thread("t").await.unwrap();
        assert_eq!(out.state().findings, ["found: what?"]);
        let schema = hier::agent::Tool::<Case, ()>::spec(&look_up {}).parameters;
        assert!(schema.to_string().contains("year"), "{schema}");
    }
}
