//! Files a tax return from a folder of papers: a hierarchy of agents over real files.
//!
//! ```text
//! cargo run --example tax_filing                                      the case in the repository, without a network
//! cargo run --example tax_filing -- --db case.db                      durable: stop it with Ctrl-C and start it again
//! cargo run --features models --example tax_filing -- --model openai:gpt-4o    a real model decides
//! cargo run --example tax_filing -- --input FOLDER --json             another case, printed as JSON
//! ```
//!
//! The agents are in `agents.rs`, their computations in `stages.rs`, the papers in `examples/data/tax`.
//!
//! The papers are private data and untrusted text, as the labels in `tools.rs` declare. A forged paper could therefore
//! ask the model to send the other papers to a stranger. No tool sends, so the compiler accepts the hierarchy. A tool
//! with `#[tool(sends)]` would need approval at every agent.

mod agents;
mod artifact;
mod case;
mod input;
mod matching;
mod money;
mod report;
mod script;
mod stages;
mod tax;
mod tools;
mod view;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use hier::agent::ChatModel;

use hier::prelude::*;
use hier::testing::ScriptedModel;
use hier::{CancellationToken, Durability, Result};
use hier_examples::database;

use agents::{Desk, TaxDesk};
use case::End;
use script::LoggedModel;
use view::View;

/// Files a tax return from a folder of papers.
#[derive(Parser)]
struct Arguments {
    /// The folder with the papers: forms and receipts as text, bank statements as CSV.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tax"))]
    input: PathBuf,
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
    /// The database of the case: a file, `sqlite:PATH` or `postgres:URL`. Without it, the case is not stored.
    #[arg(long)]
    db: Option<String>,
    /// The name of the case.
    #[arg(long, default_value = "case-1", requires = "db")]
    case: String,
    /// Prints only the return.
    #[arg(long)]
    quiet: bool,
    /// Prints the return as JSON.
    #[arg(long)]
    json: bool,
    /// The delay of each answer of the model, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pace: u64,
    /// Appends a line to this file for each answer of the model.
    #[arg(long)]
    log: Option<PathBuf>,
}

/// The exit code of an interrupted program.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut view = View::new(arguments.quiet);
    let end = run(&arguments, &mut view).await;
    view.end();
    match end {
        Ok(End::Filed(filing, labels)) => {
            if !arguments.quiet {
                eprintln!("labels of the conversation: {labels}");
            }
            let text = if arguments.json { format!("{:#}", report::json(&filing)) } else { report::text(&filing) };
            // The reader may have closed the output.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Ok(End::Cancelled) => {
            eprintln!("interrupted: {}", how_to_continue(&arguments));
            ExitCode::from(INTERRUPTED)
        }
        Ok(End::Failed(why)) => {
            eprintln!("error: {why}");
            if arguments.db.is_some() {
                eprintln!("after you have fixed this, {}", how_to_continue(&arguments));
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn how_to_continue(Arguments { db, case, .. }: &Arguments) -> String {
    match db {
        Some(db) => format!("start it again with `--db {db} --case {case}` to continue"),
        None => "nothing was stored; add `--db FILE` to be able to continue".to_owned(),
    }
}

async fn run(arguments: &Arguments, view: &mut View) -> Result<End> {
    let Arguments { input, db, case, .. } = arguments;
    let mut graph = TaxDesk::compile_as_root();
    if let Some(db) = db {
        graph = graph.checkpointer(database(db).await?);
    }
    let cancel = CancellationToken::new();
    let config = if db.is_some() { Config::new().thread(case.as_str()) } else { Config::default() };
    // With `Sync`, no answered request is repeated after a crash.
    let config = config.durability(Durability::Sync).recursion_limit(1_000_000).cancel(cancel.clone());
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel();
        }
    });
    let base = BaseContext { model: Some(Arc::new(model(arguments)?)), ..BaseContext::default() };
    let desk = Desk { base, folder: input.clone() };
    case::run(graph, config, desk, db.is_some(), view).await
}

fn model(Arguments { model, pace, log, .. }: &Arguments) -> Result<LoggedModel> {
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => hier_examples::model(name)?,
        None => Arc::new(ScriptedModel::reacting(script::reply).without_requests()),
    };
    let log = match log {
        Some(file) => Some(Mutex::new(OpenOptions::new().create(true).append(true).open(file)?)),
        None => None,
    };
    Ok(LoggedModel { model, pace: Duration::from_millis(*pace), log })
}
