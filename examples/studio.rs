//! Graphs for the studio: a desk with a subgraph and a question, an agent that reasons and calls a tool, and a loop for long
//! histories and large states.
//!
//! ```text
//! cargo run --features server --example studio            then open http://127.0.0.1:8123/studio
//! ```
//!
//! It needs no key: a scripted model answers as slowly as a real one. `--db` stores the threads in a database, `--token`
//! requires a token, `--also` serves the loop under another name, `--slower` slows all work down, and `--selftest` starts
//! and stops the server.

use std::sync::OnceLock;
use std::time::Duration;

use clap::Parser;
use futures_util::StreamExt;
use hier::Result;
use hier::agent::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError, Reasoning};
use hier::message::ToolCall;
use hier::prelude::*;
use hier::server::auth::{Tokens, User};
use hier::server::{Server, ServerError};
use hier::testing::ScriptedModel;
use serde_json::json;

/// Serves graphs for the studio.
#[derive(Parser)]
struct Arguments {
    /// The address on which it listens.
    #[arg(long, default_value = "127.0.0.1:8123")]
    addr: String,
    /// The database: `sqlite:FILE` or `postgres://…`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
    /// The token that clients must send.
    #[arg(long)]
    token: Option<String>,
    /// Another name for the loop.
    #[arg(long)]
    also: Option<String>,
    /// The factor by which all work takes longer.
    #[arg(long, default_value_t = 1)]
    slower: u32,
    /// Starts the server, stops it and ends.
    #[arg(long)]
    selftest: bool,
}

/// The state of a tax return.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Return {
    /// The taxpayer.
    taxpayer: String,
    /// The names of the incoming documents.
    documents: Vec<String>,
    #[reducer(append)]
    findings: Vec<Finding>,
    tax: Option<f64>,
    #[reducer(append)]
    notes: Vec<String>,
}

/// A finding in a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Finding {
    document: String,
    amount: f64,
}

/// The decision of a person.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Decision {
    /// True if the return may be filed.
    file: bool,
    /// The speed of the filing.
    speed: Speed,
    /// A note for the file.
    note: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Speed {
    Today,
    ThisWeek,
}

graph! {
    /// Files a return once a person agrees.
    Desk<Return> = Graph {
        nodes: [intake, read = Reader, assess, review { goto: [file, END] }, file],
        edges: [START >> intake >> read >> assess >> review, file >> END],
    }
}

graph! {
    /// Reads the documents of a return in parallel.
    Reader<Return> = Graph {
        nodes: [sort, extract, compare],
        edges: [START >> sort >> for name in documents { extract(name) }, extract >> compare >> END],
    }
}

/// The factor by which all work takes longer.
static SLOWER: OnceLock<u32> = OnceLock::new();

/// Simulates work.
async fn work(milliseconds: u64) {
    let slower = SLOWER.get().copied().unwrap_or(1);
    tokio::time::sleep(Duration::from_millis(milliseconds) * slower).await;
}

async fn intake(of: &Return) -> Result<ReturnUpdate> {
    work(120).await;
    if of.documents.is_empty() {
        return Err(NodeError::permanent("no documents came in"));
    }
    Ok(Return::update().notes([format!("{} documents of {} came in", of.documents.len(), of.taxpayer)]))
}

async fn sort() {
    work(80).await;
}

fn documents(of: &Return) -> Vec<String> {
    of.documents.clone()
}

async fn extract(Sent(document): Sent<String>) -> ReturnUpdate {
    let letters = u32::try_from(document.len()).unwrap_or(u32::MAX);
    work(150 + 40 * u64::from(letters % 7)).await;
    Return::update().findings([Finding { document, amount: f64::from(letters) * 125.5 }])
}

async fn compare(of: &Return) -> ReturnUpdate {
    work(90).await;
    Return::update().notes([format!("{} findings compared", of.findings.len())])
}

async fn assess(of: &Return) -> ReturnUpdate {
    work(200).await;
    Return::update().tax(of.findings.iter().map(|finding| finding.amount).sum::<f64>() * 0.07)
}

async fn review(of: &Return, run: &Run) -> Result<Command<Return>> {
    let question = json!({ "question": "May this be filed?", "taxpayer": of.taxpayer, "tax": of.tax });
    let decision = run.interrupt::<Decision>(&question).schema().await?;
    let said = format!("a person said: file {}, {:?}", decision.file, decision.speed);
    let update = Return::update().notes(std::iter::once(said).chain(decision.note).collect::<Vec<_>>());
    Ok(if decision.file { Command::update(update).goto(Desk::file) } else { Command::update(update).goto(END) })
}

async fn file() -> ReturnUpdate {
    work(150).await;
    Return::update().notes(["filed".to_owned()])
}

/// A counter, and rows that make the state as large as needed.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Tally {
    count: u32,
    until: u32,
    /// The number of rows that the first step adds.
    rows: u32,
    #[reducer(append)]
    table: Vec<Row>,
}

/// A row of about a hundred bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Row {
    id: u32,
    name: String,
    tags: Vec<String>,
}

graph! {
    /// Counts up to a limit.
    Counter<Tally> = Graph {
        nodes: [fill, tick],
        edges: [START >> fill >> tick >> if state.count < state.until { tick } else { END }],
    }
}

async fn fill(of: &Tally) -> TallyUpdate {
    let row =
        |id| Row { id, name: format!("row number {id}, as long as rows are"), tags: vec!["new".into(), "open".into()] };
    Tally::update().table((0..of.rows).map(row).collect::<Vec<_>>())
}

async fn tick(of: &Tally) -> TallyUpdate {
    Tally::update().count(of.count + 1)
}

graph! {
    /// Answers customers of a shop.
    Support<BaseState> = Agent { system: "You answer customers of the shop.", tools: [order] }
}

/// Looks up the payment of an order.
#[tool]
async fn order(number: u32) -> String {
    work(300).await;
    format!("order {number}: 120 euros were paid, sent on Monday")
}

/// Answers for the scripted model: looks the order up and reports the result.
fn decide(request: &ChatRequest) -> Message {
    let thought = |text: &str| [Reasoning::new("scripted", text)];
    let last = request.messages.last().and_then(Message::content).map(hier::agent::Content::text).unwrap_or_default();
    if request.messages.last().is_some_and(|message| matches!(message.body, hier::agent::Body::Tool { .. })) {
        return Message::assistant(format!("I looked it up: {last}. Is there anything else that I can do for you?"))
            .with_reasoning(thought("The order is known, so I can say when it was sent."));
    }
    let digits: String = last.chars().filter(char::is_ascii_digit).take(6).collect();
    match digits.parse::<u32>() {
        Ok(number) => {
            let call =
                ToolCall { name: "order".into(), args: json!({ "number": number }), id: format!("call-{number}") };
            Message::calls("Let me look at that order.", [call]).with_reasoning(thought(
                "The customer names an order. I should look it up before I say anything about it.",
            ))
        }
        Err(_) => Message::assistant(format!("You said: {last}. Which order is it about?")),
    }
}

/// A model that streams its answer word by word.
struct Slow(ScriptedModel);

#[hier::async_trait]
impl ChatModel for Slow {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn chat(&self, request: ChatRequest) -> std::result::Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    async fn stream(&self, request: ChatRequest) -> std::result::Result<ChatStream, ModelError> {
        let words = self.0.stream(request).await?;
        let slowly = words.then(|word| async move {
            work(40).await;
            word
        });
        Ok(Box::pin(slowly))
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), ServerError> {
    let Arguments { addr, db, token, also, slower, selftest } = Arguments::parse();
    SLOWER.get_or_init(|| slower);
    let desk = Desk::compile().erase(|_| Ok(())).with_state_schema::<Return>();
    let counter = || std::sync::Arc::new(Counter::compile().erase(|_| Ok(())).with_state_schema::<Tally>());
    let mut server = Server::new()
        .dyn_graph("desk", std::sync::Arc::new(desk))
        .graph("support", Support::compile(), BaseContext::new(Slow(ScriptedModel::reacting(decide))))
        .dyn_graph("counter", counter());
    if let Some(name) = also {
        server = server.dyn_graph(name, counter());
    }
    if let Some(url) = db {
        server = server.database(url);
    }
    if let Some(token) = token {
        server = server.auth(Tokens::new([(token, User::new("ann"))]));
    }
    let running = server.start(if selftest { "127.0.0.1:0".to_owned() } else { addr }).await?;
    println!("studio on http://{}/studio/", running.address());
    if selftest { running.stop().await } else { running.until_signal().await }
}
