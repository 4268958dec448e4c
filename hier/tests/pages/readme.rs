//! The code of `README.md`.

use hier::prelude::*;
use hier::state::RemainingSteps;

mod agent {
    use hier::prelude::*;

    graph! {
        /// Answers customers.
        pub Support<MessagesState> = Agent {
            system: "You answer customers of the shop.",
            tools: [weather],
        }
    }

    /// The weather of a city, today.
    #[tool]
    async fn weather(city: String) -> String {
        format!("sunny in {city}")
    }

    async fn serve() -> hier::Result<()> {
        let context = BaseContext::new(Model::parse("openai:gpt-4o")?);
        hier::server::Server::new()
            .graph("support", Support::compile(), context)
            .database("sqlite:desk.db")
            .serve("127.0.0.1:8123")
            .await?;
        Ok(())
    }
}

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

/// A case, as it grows.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Filing {
    #[state(flatten)]
    base: BaseState, // its channels (messages, todo_list, progress, …) become Filing's
    artifact: Option<Artifact>, // no reducer: the last value wins; one writer per step
    #[reducer(append)]
    findings: Vec<Finding>, // many writers a step: merged, in the order of node names
    remaining_steps: RemainingSteps, // managed by the engine, never writable
}

graph! {
    /// Files a tax return from raw documents.
    pub FilingDesk<Filing> = TodoGraph {
        system: "You run the filing desk.",
        input: untrusted,                                       // clients wrote the papers: no agent here may leak data
        tools: [lookup_rate],                                   // #[tool] async fns: the schema is their arguments
        front: [Normalise],                                     // deterministic, not visible to the model
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
            START >> validate >> for doc in documents { fetch(doc) },   // map: one task a document
            fetch >> assess >> match verdict {                          // a route: exhaustive, because it is a match
                Verdict::Accept => END,
                Verdict::Redo => validate,
            },
        ],
    }
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
    /// Tidies up what came in.
    pub Normalise<Filing> = SimpleGraph { compute: normalise }
}

/// Looks up the tax rate of a year.
#[tool]
async fn lookup_rate(year: u16) -> String {
    format!("{year}: 7 %")
}

/// The verdict about the findings.
enum Verdict {
    Accept,
    Redo,
}

async fn normalise(state: &Filing) -> FilingUpdate {
    let messages = state.base.messages.iter().filter_map(|message| Some(message.content()?.text()));
    Filing::update().artifact(Artifact { lines: messages.map(|text| text.trim().to_owned()).collect() })
}

async fn validate() {}

fn documents(state: &Filing) -> Vec<String> {
    state.artifact.iter().flat_map(|artifact| artifact.lines.clone()).collect()
}

async fn assess(state: &Filing) -> FilingUpdate {
    let lines = state.findings.iter().map(|finding| finding.text.clone()).collect();
    Filing::update().artifact(Artifact { lines })
}

fn verdict(state: &Filing) -> Verdict {
    if state.findings.is_empty() { Verdict::Redo } else { Verdict::Accept }
}
