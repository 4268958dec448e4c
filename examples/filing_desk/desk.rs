//! The filing desk of the README: agents with their subagents and tools.

use hier::agent::Body;
use hier::prelude::*;
use hier::state::RemainingSteps;

/// A finding in a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    text: String,
}

impl Finding {
    fn of(document: &str) -> hier::Result<Self> {
        match document.trim() {
            "" => Err(NodeError::permanent("the document is empty")),
            text => Ok(Self { text: text.to_owned() }),
        }
    }
}

/// The artifact that stages pass on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Artifact {
    lines: Vec<String>,
}

/// The state of a case.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Filing {
    #[state(flatten)]
    base: BaseState, // its channels (messages, todo_list, progress, …) become Filing's
    artifact: Option<Artifact>, // no reducer: the last value wins; one writer per step
    #[reducer(append)]
    findings: Vec<Finding>, // many writers per step, merged in the order of node names
    remaining_steps: RemainingSteps, // managed by the engine, never writable
}

graph! {
    /// Files a tax return from raw documents.
    pub FilingDesk<Filing> = TodoGraph {
        system: "You run the filing desk.",
        input: untrusted,                                       // clients wrote the papers: no agent here may leak data
        tools: [lookup_rate],                                   // `#[tool]` functions: their arguments are the schema
        front: [Normalise],                                     // runs before the agent, invisible to the model
        subagents: [
            Extractor { merge_fields: [artifact, findings], max_iterations: 8 },
            Matcher { merge_fields: [artifact], clear_messages: false },
        ],
    }
}

graph! {
    /// Any graph can be a subagent.
    pub Extractor<Filing> = Graph {
        nodes: [validate, fetch { retry: 3, timeout: 5s }, assess],
        edges: [
            START >> validate >> for doc in documents { fetch(doc) },   // one task for each item of `documents(&state)`
            fetch >> assess >> match verdict {                          // a route: exhaustive, because it is a match
                Verdict::Accept => END,
                Verdict::Redo => validate,
            },
        ],
    }
}

/// The findings, which `assess` reads. The compiler knows which nodes write them.
#[derive(View)]
#[view(of = Filing)]
struct Findings<'a> {
    findings: &'a Vec<Finding>,
}

/// A finding, which `fetch` writes.
#[derive(View)]
#[view(of = Filing)]
struct Found {
    findings: Vec<Finding>,
}

async fn fetch(Sent(doc): Sent<String>) -> hier::Result<Found> {
    // `?` works with every error
    Ok(Found { findings: vec![Finding::of(&doc)?] })
}

graph! {
    /// Matches the findings with the bank statement.
    pub Matcher<Filing> = ReactGraph { system: "You match." }
}

graph! {
    /// Normalises the incoming documents.
    pub Normalise<Filing> = SimpleGraph { compute: normalise }
}

/// Looks up the tax rate of a year.
#[tool]
async fn lookup_rate(year: u16) -> String {
    format!("{year}: 7 %")
}

#[derive(View)]
#[view(of = Filing)]
struct Conversation<'a> {
    messages: &'a hier::message::Messages,
}

/// The artifact with lines that every member understands.
#[derive(View)]
#[view(of = Filing)]
struct Normalised {
    artifact: Option<Artifact>,
}

/// The verdict about the findings.
enum Verdict {
    Accept,
    Redo,
}

/// Takes the messages since the desk's last answer as documents.
async fn normalise(case: Conversation<'_>) -> Normalised {
    let latest = case.messages.iter().rev().take_while(|message| matches!(message.body, Body::User { .. }));
    let mut lines: Vec<String> = latest.map(|message| message.text().trim().to_owned()).collect();
    lines.reverse();
    Normalised { artifact: Some(Artifact { lines }) }
}

async fn validate() {}

fn documents(state: &Filing) -> Vec<String> {
    state.artifact.iter().flat_map(|artifact| artifact.lines.clone()).collect()
}

async fn assess(case: Findings<'_>) -> Normalised {
    let lines = case.findings.iter().map(|finding| finding.text.clone()).collect();
    Normalised { artifact: Some(Artifact { lines }) }
}

fn verdict(state: &Filing) -> Verdict {
    if state.findings.is_empty() { Verdict::Redo } else { Verdict::Accept }
}
