//! A durable graph to kill: each start continues where the last one stopped.
//!
//! ```text
//! cargo run --example crash_target -- --db sqlite:crash.db --thread t1 --log crash.log --rounds 5 --width 4 --delay-ms 50
//! ```
//!
//! `seed` sends `--width` items to `work`, `gather` waits for them and goes back to `seed`, until `--rounds` rounds are done.
//! Each `work` waits, and then appends its idempotency key to the log. A key that occurs twice was not committed when the
//! process died. At the end the program prints the state as one line of JSON. Another start finds the thread finished, runs
//! nothing and prints the same.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hier::prelude::*;
use hier::{Durability, Result};
use hier_examples::database;

/// Runs a thread that can be killed at any moment.
#[derive(Parser)]
struct Arguments {
    /// The database: `sqlite:PATH` or `postgres:URL`.
    #[arg(long)]
    db: String,
    /// The thread.
    #[arg(long)]
    thread: String,
    /// The file to which each task appends its key.
    #[arg(long)]
    log: PathBuf,
    /// The number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// The number of tasks in a round.
    #[arg(long, default_value_t = 4)]
    width: u64,
    /// The delay of each task in milliseconds.
    #[arg(long, default_value_t = 10)]
    delay_ms: u64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // programs that read the output expect this name
struct Rounds {
    goal: u64,
    width: u64,
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    rounds: Vec<u64>,
}

/// The resources of a process, which are not part of the thread.
struct Site {
    log: PathBuf,
    delay: Duration,
}

graph! {
    CrashTarget<Rounds, Site> = Graph {
        nodes: [seed, work, gather],
        edges: [
            START >> if has_work { seed } else { END },
            seed >> for item in items { work(item) },
            work >> gather >> if has_work { seed } else { END },
        ],
    }
}

async fn seed() {}

async fn work(Sent(_item): Sent<u64>, run: &Run<Site>) -> Result<RoundsUpdate> {
    let Site { log, delay } = run.context();
    tokio::time::sleep(*delay).await;
    let line = format!("{}\n", run.idempotency_key());
    // A single write, so that the file never contains a partial line.
    OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())?;
    Ok(Rounds::update().done(1))
}

async fn gather(state: &Rounds) -> RoundsUpdate {
    let round = state.rounds.len() as u64;
    Rounds::update().rounds([round])
}

fn has_work(state: &Rounds) -> bool {
    (state.rounds.len() as u64) < state.goal
}

fn items(state: &Rounds) -> Vec<u64> {
    (0..state.width).collect()
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

async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { db, thread, log, rounds, width, delay_ms } = arguments;
    let graph = CrashTarget::compile().checkpointer(database(&db).await?);
    let config = Config::new().thread(thread).durability(Durability::Sync);
    let site = Site { log, delay: Duration::from_millis(delay_ms) };
    // Continuing a finished thread runs nothing.
    let state = match graph.state(config.clone()).await?.checkpoint {
        Some(_) => graph.invoke(()).config(config).context(site).await?.into_state(),
        None => {
            graph.invoke(Rounds::update().goal(rounds).width(width)).config(config).context(site).await?.into_state()
        }
    };
    println!("{}", serde_json::json!({ "done": state.done, "rounds": state.rounds }));
    Ok(())
}
