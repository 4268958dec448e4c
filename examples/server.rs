//! Graphs as a service: a desk that asks a person, and an agent that chats, for the clients of LangGraph's server.
//!
//! ```text
//! cargo run --example server
//! curl -s localhost:8123/runs/wait -H 'content-type: application/json' \
//!     -d '{"assistant_id": "chat", "input": {"messages": [{"role": "user", "content": "hello"}]}}'
//! ```
//!
//! Python: `langgraph_sdk.get_client(url="http://127.0.0.1:8123")`. It needs no key: the model says what a script says.
//! With `--selftest` it serves on a port of its own, asks itself once, and ends.

use clap::Parser;
use hier_core::prelude::*;
use hier_server::{Server, ServerError};
use hier_testkit::ScriptedModel;
use serde_json::json;

/// Serves two graphs.
#[derive(Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8123")]
    addr: String,
    /// Starts, stops and ends: whether everything fits.
    #[arg(long)]
    selftest: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    income: f64,
    tax: f64,
    #[reducer(append)]
    notes: Vec<String>,
}

graph! {
    /// Computes a tax, and files it once a person agrees.
    TaxDesk<Case> = Graph {
        nodes: [assess, review, file],
        edges: [START >> assess >> review >> file >> END],
    }
}

async fn assess(case: &Case) -> Result<CaseUpdate> {
    if case.income < 0.0 {
        return Err(NodeError::permanent("an income is not negative"));
    }
    Ok(Case::update().tax(case.income * 0.07))
}

async fn review(case: &Case, run: &Run) -> Result<CaseUpdate> {
    let decision: String = run.interrupt(&json!({ "file": case.tax, "answers": ["yes", "no"] })).await?;
    Ok(Case::update().notes([format!("a person said {decision}")]))
}

async fn file(case: &Case) -> CaseUpdate {
    Case::update().notes([format!("{:.2} filed", case.tax)])
}

graph! {
    /// Chats.
    Chat<BaseState> = Agent { system: "You are friendly." }
}

fn model() -> ScriptedModel {
    ScriptedModel::reacting(|request| {
        let asked = request.messages.iter().rev().find_map(|message| Some(message.content()?.text()));
        Message::assistant(format!("You said: {}", asked.unwrap_or_default()))
    })
}

#[tokio::main]
async fn main() -> std::result::Result<(), ServerError> {
    let arguments = Arguments::parse();
    let server = Server::new().graph("tax_desk", TaxDesk::compile(), ());
    let server = server.graph("chat", Chat::compile(), BaseContext::new(model()));
    if arguments.selftest {
        let running = server.start("127.0.0.1:0").await?;
        println!("served on {}", running.address());
        return running.stop().await;
    }
    println!("serving on http://{}", arguments.addr);
    server.serve(arguments.addr).await
}
