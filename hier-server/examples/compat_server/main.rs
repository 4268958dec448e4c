//! The graphs that LangGraph's own suites of tests expect of a server, served by hier.
//!
//! ```text
//! cargo run -p hier-server --all-features --example compat_server -- --suite sdk-py --addr 127.0.0.1:2024
//! ```
//!
//! Then, in a checkout of langchain-ai/langgraph: `pytest -m integration libs/sdk-py/tests/integration`; `scripts/peers.sh suites` does all of
//! it, for both suites. The other graphs are those of the server's own tests.

mod client_tools;
#[path = "../../tests/http/graphs.rs"]
mod graphs;
mod langgraphjs;
mod paced;
mod sdk_py;
mod storage;

use std::error::Error;

use clap::{Parser, ValueEnum};
use hier_agents::prelude::*;
use hier_server::Server;
use paced::Paced;

/// Serves the graphs of a suite.
#[derive(Parser)]
struct Arguments {
    /// The suite to serve.
    #[arg(long, value_enum, default_value_t = Suite::SdkPy)]
    suite: Suite,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:2024")]
    addr: String,
    /// The database: `sqlite:FILE` or `postgres://…`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
    /// Serves no requests, and executes the runs that servers on the same database have added.
    #[arg(long, requires = "db")]
    worker: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// `libs/sdk-py/tests/integration` of langchain-ai/langgraph.
    SdkPy,
    /// `libs/langgraph-api/tests/api.test.mts` of langchain-ai/langgraphjs.
    Langgraphjs,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let (runs, store) = storage::open(arguments.db.as_deref()).await?;
    let server = match arguments.suite {
        Suite::SdkPy => client_tools::graphs(sdk_py::graphs(word_by_word(graphs::server()))),
        Suite::Langgraphjs => {
            langgraphjs::graphs(Server::new())?.routes(storage::truncation(runs.clone(), store.clone()))
        }
    };
    let server = server.storage(runs, store);
    if arguments.worker {
        let worker = server.worker().await?;
        println!("working");
        worker.run_until_signal().await;
        return Ok(());
    }
    let running = server.allow_origins(["*"]).start(arguments.addr).await?;
    // The port is the system's choice if the address says 0.
    println!("serving on http://{}", running.address());
    Ok(running.until_signal().await?)
}

/// Adds the graph `paced`: that of `chat`, whose model says a word whenever `POST /internal/say` is called.
fn word_by_word(server: Server) -> Server {
    let model = Paced::new(graphs::says_hello());
    server.routes(model.route()).graph("paced", graphs::Chat::compile_as_root(), BaseContext::new(model))
}
