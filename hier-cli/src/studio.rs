//! `hier studio`: serves the studio for a database, without the program.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use hier_core::store::MemoryStore;
use hier_server::Server;

use crate::threads::{DatabaseArgs, ThreadsError, open};

/// The arguments of `hier studio`.
#[derive(Args, Debug)]
#[allow(missing_docs)] // see the help
pub struct StudioArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Address at which the studio listens. By default, only this machine can reach it.
    #[arg(long, default_value = "127.0.0.1:8124", value_name = "ADDRESS")]
    pub addr: SocketAddr,
    /// Allows an address that other machines can reach. The studio has no authentication: everyone who can reach the
    /// address can read, copy and delete threads.
    #[arg(long)]
    pub open_to_all: bool,
}

/// Serves the studio until the process receives an interrupt or termination signal.
///
/// Writes the address to `out`.
pub fn serve_studio(arguments: &StudioArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ThreadsError::Runtime)?;
    runtime.block_on(async {
        let runs = open(&arguments.database).await?;
        let server = Server::new().storage(runs, Arc::new(MemoryStore::default())).only_studio();
        let server = if arguments.open_to_all { server.without_auth() } else { server };
        let refused = |error: hier_server::ServerError| match error {
            hier_server::ServerError::Unprotected { address } => ThreadsError::Usage(format!(
                "{address} can be reached from other machines, and the studio has no authentication: listen on 127.0.0.1, or add \
                 `--open-to-all` behind a proxy that authenticates"
            )),
            error => ThreadsError::Usage(error.to_string()),
        };
        let running = server.start(arguments.addr).await.map_err(refused)?;
        writeln!(out, "studio on http://{}/studio/ (stop with Ctrl+C)", running.address())
            .map_err(ThreadsError::Write)?;
        running.until_signal().await.map_err(refused)
    })
}
