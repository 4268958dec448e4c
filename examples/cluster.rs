//! The graph of `crash_target` on a Restate cluster. Threads survive kills of workers and servers.
//!
//! ```text
//! scripts/restate.sh start /tmp/restate                       # prints the URLs of the ingress and of the admin API
//! cargo run --features restate --example cluster -- worker --addr 127.0.0.1:9080 --log cluster.log --admin http://127.0.0.1:ADMIN
//! cargo run --features restate --example cluster -- run --ingress http://127.0.0.1:INGRESS --thread t1 --rounds 5 --width 4 --delay-ms 50
//! ```
//!
//! `seed` sends `--width` items to `work`, `gather` waits for them and goes back to `seed`, until `--rounds` rounds are done.
//! Each `work` is a separate call to a worker. It waits, and then appends its idempotency key to the worker's log. At the end the
//! program prints the state as one line of JSON. A second run finds the thread finished, runs nothing and prints the same.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use hier::graph::DynInput;
use hier::prelude::*;
use hier::restate::{Client, Endpoint, register};
use serde_json::json;

/// Runs a thread on a cluster that can be killed at any moment.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the graph to Restate.
    Worker {
        /// The address on which it listens.
        #[arg(long)]
        addr: String,
        /// The file to which each task appends its key.
        #[arg(long)]
        log: PathBuf,
        /// The admin API of the Restate server at which the worker is registered.
        #[arg(long)]
        admin: Option<String>,
    },
    /// Runs a thread.
    Run {
        /// The ingress of Restate.
        #[arg(long)]
        ingress: String,
        /// The thread.
        #[arg(long)]
        thread: String,
        /// The number of rounds.
        #[arg(long, default_value_t = 3)]
        rounds: u64,
        /// The number of tasks in a round.
        #[arg(long, default_value_t = 4)]
        width: u64,
        /// The delay of each task in milliseconds.
        #[arg(long, default_value_t = 10)]
        delay_ms: u64,
    },
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // programs that read the output expect this name
struct Rounds {
    goal: u64,
    width: u64,
    delay_ms: u64,
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    rounds: Vec<u64>,
}

/// The worker's resources, which are not part of the thread.
#[derive(Clone)]
struct Site {
    log: PathBuf,
}

graph! {
    Cluster<Rounds, Site> = Graph {
        nodes: [seed, work, gather],
        edges: [
            START >> if has_work { seed } else { END },
            seed >> for item in items { work(item) },
            work >> gather >> if has_work { seed } else { END },
        ],
    }
}

async fn seed() {}

async fn work(state: &Rounds, Sent(_item): Sent<u64>, run: &hier::Run<Site>) -> hier::Result<RoundsUpdate> {
    tokio::time::sleep(Duration::from_millis(state.delay_ms)).await;
    let line = format!("{}\n", run.idempotency_key());
    // A single write, so that the file never contains a partial line.
    OpenOptions::new().create(true).append(true).open(&run.context().log)?.write_all(line.as_bytes())?;
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
    let done = match Arguments::parse().command {
        Command::Worker { addr, log, admin } => worker(&addr, log, admin).await,
        Command::Run { ingress, thread, rounds, width, delay_ms } => {
            run(&ingress, &thread, json!({ "goal": rounds, "width": width, "delay_ms": delay_ms })).await
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn worker(addr: &str, log: PathBuf, admin: Option<String>) -> Result<(), hier::restate::Error> {
    let endpoint = Endpoint::new().graph("rounds", Cluster::compile(), Site { log });
    let serving = endpoint.serve(addr);
    let Some(admin) = admin else { return serving.await };
    // Restate requests the worker's list of services.
    let url = format!("http://{addr}");
    let (served, registered) = tokio::join!(serving, register(&admin, &url));
    registered.and(served)
}

async fn run(ingress: &str, thread: &str, input: serde_json::Value) -> Result<(), hier::restate::Error> {
    let graph = Client::new(ingress).graph("rounds");
    // Continuing a finished thread runs nothing.
    let input = match graph.state(thread).await?.checkpoint {
        Some(_) => DynInput::Continue,
        None => DynInput::New(input),
    };
    let state = graph.invoke(input).thread(thread).await?.into_state();
    println!("{}", json!({ "done": state["done"], "rounds": state["rounds"] }));
    Ok(())
}
