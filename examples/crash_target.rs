//! A durable graph to be killed: whenever it is started it goes on where it was.
//!
//! ```text
//! cargo run --example crash_target -- --db sqlite:crash.db --thread t1 --log crash.log --rounds 5 --width 4 --delay-ms 50
//! ```
//!
//! `seed` sends `--width` items to `work`, `gather` waits for them and goes back to `seed`, until `--rounds` rounds are done.
//! Each `work` waits, and then appends its idempotency key to the log: a key that stands there twice was not committed
//! when the process died. At the end the state is printed as one line of JSON. Started once more, the thread is finished: it
//! prints the same and runs nothing.

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
    /// Where threads are kept: `sqlite:PATH` or `postgres:URL`.
    #[arg(long)]
    db: String,
    /// The thread.
    #[arg(long)]
    thread: String,
    /// The file to which each task appends its key.
    #[arg(long)]
    log: PathBuf,
    /// How many rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// How many tasks a round.
    #[arg(long, default_value_t = 4)]
    width: u64,
    /// How long each task waits, in milliseconds.
    #[arg(long, default_value_t = 10)]
    delay_ms: u64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // the name of the list is fixed by those who read the output
struct Rounds {
    goal: u64,
    width: u64,
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    rounds: Vec<u64>,
}

/// What a process needs of its surroundings: not part of the thread.
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
    // One write of one line: whole in the file or not there.
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
    // To go on with a thread that is finished runs nothing.
    let state = match graph.state(config.clone()).await?.checkpoint {
        Some(_) => graph.invoke(()).config(config).context(site).await?.into_state(),
        None => {
            graph.invoke(Rounds::update().goal(rounds).width(width)).config(config).context(site).await?.into_state()
        }
    };
    println!("{}", serde_json::json!({ "done": state.done, "rounds": state.rounds }));
    Ok(())
}
