//! `hier studio`: the pages of the studio on a database alone.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use hier_core::store::MemoryStore;
use hier_server::Server;

use crate::threads::{Database, Error, open};

/// Where the studio listens, and what it shows.
#[derive(Args, Debug)]
#[allow(missing_docs)] // the help has it
pub struct Studio {
    #[command(flatten)]
    pub database: Database,
    /// Where to listen. Only this machine reaches it, unless another address is named.
    #[arg(long, default_value = "127.0.0.1:8124", value_name = "ADDRESS")]
    pub addr: SocketAddr,
    /// Lets everybody who reaches the address read, copy and delete threads: nobody is asked who they are.
    #[arg(long)]
    pub open_to_all: bool,
}

/// Serves until the process is told to stop.
pub fn run(arguments: &Studio) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let runs = open(&arguments.database).await?;
        let server = Server::new().storage(runs, Arc::new(MemoryStore::default())).only_studio();
        let server = if arguments.open_to_all { server.without_auth() } else { server };
        let refused = |error: hier_server::ServerError| match error {
            hier_server::ServerError::Unprotected { address } => Error::Usage(format!(
                "{address} is reached from other machines, and the studio asks nobody who they are: listen on 127.0.0.1, or say \
                 `--open-to-all` if something in front of it asks"
            )),
            error => Error::Usage(error.to_string()),
        };
        let running = server.start(arguments.addr).await.map_err(refused)?;
        println!("studio on http://{}/studio/ (Ctrl+C ends it)", running.address());
        running.until_signal().await.map_err(refused)
    })
}
