//! Measures the load that a server carries. Server and load generator share one process, so the figures belong to one run.
//!
//! ```text
//! cargo bench --package hier-server --all-features --bench load -- wait [--db URL] [--connections 64] [--seconds 10]
//! cargo bench --package hier-server --all-features --bench load -- wait --addr 127.0.0.1:2024 [--durable yes]
//! cargo bench --package hier-server --all-features --bench load -- streams [--connections 10000]
//! cargo bench --package hier-server --all-features --bench load -- events [--events 100000]
//! ```
//!
//! `wait` asks for runs of a graph of one node and waits for their ends: `/runs/wait` in memory, and with a database
//! `/threads/{id}/runs/wait`, each connection with its own threads. With
//! `--addr` it asks a running server, which needs a graph `one` that adds 1 to `n`. `streams` opens streams and prints the cost of each. `events` follows
//! a run of this many events from its beginning, while it is running and afterwards, and counts missing events.

mod http;
mod rates;
mod streams;

use std::time::Duration;

use hier_agents::prelude::*;
use hier_server::{Running, Server, ServerError};
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Line {
    n: u64,
    events: u64,
}

graph! {
    /// One node.
    One<Line> = Graph { nodes: [add], edges: [START >> add >> END] }
}

async fn add(line: &Line, run: &Run) -> LineUpdate {
    for number in 0..line.events {
        run.emit(json!({ "number": number }));
        // Pauses between events, like a node that waits for something.
        if number % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Line::update().n(line.n + 1)
}

/// As in the servers that `hier new` makes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The arguments of the command line, with their defaults.
struct Arguments(Vec<String>);

impl Arguments {
    fn text(&self, name: &str) -> Option<&str> {
        let place = self.0.iter().position(|argument| argument.strip_prefix("--") == Some(name))?;
        self.0.get(place + 1).map(String::as_str)
    }

    fn number(&self, name: &str, unless: usize) -> usize {
        self.text(name).map_or(unless, |text| text.parse().unwrap_or_else(|_| panic!("--{name} takes a number")))
    }
}

async fn served(db: Option<&str>) -> Result<Running, ServerError> {
    let server = Server::new().graph("one", One::compile(), ()).max_requests(1 << 20).concurrency(64);
    let server = match db {
        Some(db) => server.database(db),
        None => server,
    };
    server.start("127.0.0.1:0").await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments(std::env::args().collect());
    let (connections, seconds) = (arguments.number("connections", 64), arguments.number("seconds", 10));
    let lasts = Duration::from_secs(seconds.try_into()?);
    if let Some(address) = arguments.text("addr") {
        return Ok(rates::measure(address.parse()?, arguments.text("durable").is_some(), connections, lasts).await?);
    }
    let db = arguments.text("db");
    let running = served(db).await?;
    let address = running.address();
    match arguments.0.get(1).map(String::as_str) {
        Some("streams") => streams::open(address, arguments.number("connections", 10_000)).await?,
        Some("events") => streams::follow(address, arguments.number("events", 100_000)).await?,
        // `cargo bench` and `cargo test --benches` name no part.
        _ => rates::measure(address, db.is_some(), connections, lasts).await?,
    }
    running.stop().await?;
    Ok(())
}
