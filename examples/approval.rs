//! A workflow that asks a person, is killed, and goes on in another process once the answer is there.
//!
//! ```text
//! cargo run --example approval -- start       begins the case, and dies while it waits for the answer
//! cargo run --example approval -- pending     lists the open question with its id, from another process
//! cargo run --example approval -- answer yes  answers it, and finishes the case
//!
//! A service that shows the question to a person hands its id out with it and takes the answer by that id (`--question ID`):
//! whoever clicks twice, or late, is refused, and nothing is paid twice.
//! ```
//!
//! The thread is kept in the file `approval.db`, or in the one that `--db` names.

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
    /// Where threads are kept: `sqlite:PATH` or `postgres:URL`.
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
    /// Begins the case: stops with a question, and the process dies.
    Start,
    /// Lists what is asked.
    Pending,
    /// Answers, and goes on to the end.
    Answer {
        /// Whether the invoice is to be paid.
        decision: Decision,
        /// The id of the question, as `pending` shows it; unless given, that of the open one.
        #[arg(long)]
        question: Option<String>,
    },
}

/// The answer of a person. The question is answered with this type or not at all.
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

/// What is asked.
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
            println!("a person is asked; this process dies now, without a word to anybody");
            std::process::abort();
        }
        Action::Pending => {
            let state = graph.state(config).await?;
            for question in &state.questions {
                println!("{} asks {} (id {})", question.path.join("/"), question.value, question.id);
            }
            if state.questions.is_empty() {
                println!("nothing is asked");
            }
        }
        Action::Answer { decision, question } => {
            let id = if let Some(id) = question {
                id
            } else {
                let open = graph.state(config.clone()).await?.questions;
                open.first().map(|question| question.id.clone()).ok_or_else(|| NodeError::new("nothing is asked"))?
            };
            // A process that was killed holds its threads until their leases run out: that is waited for.
            let config = config.when_running(WhenRunning::Wait(Duration::from_mins(1)));
            // By its id: the answer is for this question and no other, however often it is given.
            let outcome = graph.invoke(Command::answers([(id, decision)])).config(config).await?;
            outcome.state().log.iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(())
}
