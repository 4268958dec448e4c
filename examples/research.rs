//! An agent team that plans a question, researches its parts in parallel and returns a typed answer.
//!
//! ```text
//! cargo run --example research                                     without a key: a scripted model
//! cargo run --features models --example research -- "How did lighthouses change?" --model anthropic:claude-sonnet-4-5
//! ```
//!
//! `plan` asks the model for the parts of the question. Each part is sent to a `worker`, which runs an agent with a lookup tool. The
//! editor, an agent with `answer:`, combines the findings.

use std::sync::Arc;

use clap::Parser;
use hier::Result;
use hier::agent::{Body, ChatModel, ChatRequest};
use hier::prelude::*;
use hier::testing::ScriptedModel;
use serde_json::{Value, json};

/// The resulting article.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Article {
    title: String,
    text: String,
    /// The sources.
    sources: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Research {
    #[state(flatten)]
    base: BaseState,
    question: String,
    parts: Vec<String>,
    #[reducer(append)]
    findings: Vec<String>,
    article: Option<Article>,
}

graph! {
    /// Plans, researches, writes.
    Desk<Research, BaseContext> = Graph {
        nodes: [plan, worker, editor = Editor],
        edges: [START >> plan >> for part in state.parts { worker(part) }, worker >> editor >> END],
    }
}

graph! {
    /// Researches one thing.
    Worker<MessagesState> = Agent {
        system: "You research one thing with `look_up`, and answer in two sentences.",
        tools: [look_up],
        max_iterations: 6,
    }
}

graph! {
    /// Writes an article about the findings.
    Editor<Research> = Agent {
        system: |state: &Research| format!("You write about: {}\nWhat was found:\n{}", state.question, state.findings.join("\n")),
        answer: article,
    }
}

/// The parts of a question.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plan {
    /// Each part can be researched independently.
    parts: Vec<String>,
}

async fn plan(state: &Research, run: &Run<BaseContext>) -> Result<ResearchUpdate> {
    let plan =
        run.model()?.ask(&*state.question).system("You split questions into two to four parts.").output::<Plan>();
    let Plan { parts } = plan.await?;
    Ok(Research::update().parts(parts).messages(Message::user("Write the article.")))
}

/// Researches one part with a separate agent.
async fn worker(Sent(part): Sent<String>, run: &Run<BaseContext>) -> Result<ResearchUpdate> {
    let context = run.context().clone();
    let found = Worker::compile().invoke(Message::user(&*part)).context(context).await?;
    Ok(Research::update().findings([format!("{part}: {}", found.text())]))
}

/// Looks up a word in an encyclopaedia.
#[tool]
async fn look_up(word: String) -> String {
    let known = [
        ("fire", "The first lighthouses burned wood on open towers; Pharos stood about 100 metres tall."),
        ("lens", "Fresnel's lens of 1822 carried the light of a lamp more than 20 miles."),
        ("radio", "From 1921 on radio beacons, later satellites, took over what lights did."),
    ];
    let entry = known.iter().find(|(key, _)| word.to_lowercase().contains(key));
    entry.map_or_else(|| format!("nothing is known of {word}"), |(_, text)| (*text).to_owned())
}

/// Researches a question.
#[derive(Parser)]
struct Arguments {
    #[arg(default_value = "How did lighthouses change?")]
    question: String,
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { question, model } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => hier_examples::model(&name)?,
        None => Arc::new(ScriptedModel::reacting(think)),
    };
    let input = Research::update().question(question);
    let out = Desk::compile().invoke(input).context(BaseContext::new(model)).await?;
    let state = out.state();
    state.findings.iter().for_each(|found| println!("- {found}"));
    match &state.article {
        Some(Article { title, text, sources }) => println!("\n{title}\n{text}\n({})", sources.join("; ")),
        None => println!("There is no article: {:?}", state.base.ending()),
    }
    Ok(())
}

/// Answers for the scripted model: three parts, a lookup and a text for each, and a summary.
fn think(request: &ChatRequest) -> Message {
    let last = request.messages.last();
    let text = last.map(Message::text).unwrap_or_default();
    let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    if request.output.is_some() {
        let parts = ["the time of fire", "the lens", "radio and after"];
        return Message::assistant(json!({ "parts": parts }).to_string());
    }
    if offers("final_answer") {
        let instructions = request.messages.get(0).map(Message::text).unwrap_or_default();
        let found: Vec<&str> = instructions.lines().skip(2).collect();
        let article: Value = json!({ "title": "Lights at sea", "text": found.join(" "), "sources": ["encyclopaedia"] });
        return Message::call("final_answer", article);
    }
    match last.map(|last| &last.body) {
        Some(Body::Tool { .. }) => Message::assistant(text),
        _ => Message::call("look_up", json!({ "word": text })),
    }
}
