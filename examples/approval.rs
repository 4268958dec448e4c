//! A workflow that asks a person, is killed, and continues in another process when the answer arrives.
//!
//! ```text
//! cargo run --example approval -- start       starts the case and dies while it waits for the answer
//! cargo run --example approval -- pending     lists the open question and its id from another process
//! cargo run --example approval -- answer yes  answers it and finishes the case
//!
//! A service shows the question with its id and accepts the answer for that id (`--question ID`). It refuses a second or late
//! click, so nothing is paid twice.
//! ```
//!
//! The thread is stored in the file `approval.db`, or in the database of `--db`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use hier::checkpoint::WhenRunning;
use hier::prelude::*;
use hier::{Durability, Result};
use hier_examples::database;

/// Asks before it pays.
#[derive(Parser)]
struct Arguments {
    /// The database: `sqlite:PATH` or `postgres:URL`.
    #[arg(long, global = true, default_value = "sqlite:approval.db")]
    db: String,
    /// The case.
    #[arg(long, global = true, default_value = "invoice-17")]
    case: String,
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts the case, stops with a question and kills the process.
    Start,
    /// Lists the open questions.
    Pending,
    /// Answers the question and finishes the case.
    Answer {
        /// The decision about the invoice.
        decision: Decision,
        /// The id of the question, as shown by `pending`. Defaults to the only open one.
        #[arg(long)]
        question: Option<String>,
    },
}

/// The answer of a person. Other types are refused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Yes,
    No,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: f64,
    #[reducer(append)]
    log: Vec<String>,
    decision: Option<Decision>,
}

/// The question.
#[derive(Serialize)]
struct Question {
    pay: f64,
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [check, ask, pay, decline],
        edges: [
            START >> check >> ask >> match decision {
                Some(Decision::Yes) => pay,
                Some(Decision::No) | None => decline,
            },
            [pay, decline] >> END,
        ],
    }
}

async fn check(state: &Invoice) -> InvoiceUpdate {
    Invoice::update().log([format!("checked an invoice of {:.2}", state.amount)])
}

async fn ask(state: &Invoice, run: &Run) -> Result<InvoiceUpdate> {
    let decision: Decision = run.interrupt(&Question { pay: state.amount }).await?;
    Ok(Invoice::update().decision(decision))
}

async fn pay(state: &Invoice) -> InvoiceUpdate {
    Invoice::update().log([format!("paid {:.2}", state.amount)])
}

async fn decline() -> InvoiceUpdate {
    Invoice::update().log(["declined".to_owned()])
}

fn decision(state: &Invoice) -> Option<Decision> {
    state.decision
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { db, case, command }: Arguments) -> Result<()> {
    let graph = Approval::compile().checkpointer(database(&db).await?);
    let config = Config::new().thread(case).durability(Durability::Sync);
    match command {
        Action::Start => {
            let outcome = graph.invoke(Invoice::update().amount(1250.0)).config(config).await?;
            outcome.state().log.iter().for_each(|line| println!("{line}"));
            println!("the question is stored; this process now aborts");
            std::process::abort();
        }
        Action::Pending => {
            let state = graph.state(config).await?;
            for question in &state.questions {
                println!("{} asks {} (id {})", question.path.join("/"), question.value, question.id);
            }
            if state.questions.is_empty() {
                println!("there is no open question");
            }
        }
        Action::Answer { decision, question } => {
            let id = if let Some(id) = question {
                id
            } else {
                let open = graph.state(config.clone()).await?.questions;
                open.first()
                    .map(|question| question.id.clone())
                    .ok_or_else(|| NodeError::new("there is no open question"))?
            };
            // A killed process holds its threads until their leases expire. This run waits for that.
            let config = config.when_running(WhenRunning::Wait(Duration::from_mins(1)));
            // With its id, the answer belongs to this question only, even if it is sent twice.
            let outcome = graph.invoke(Command::answers([(id, decision)])).config(config).await?;
            outcome.state().log.iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(())
}
