//! Why a server cannot serve.

use std::io::ErrorKind;
use std::net::SocketAddr;

use hier_core::runs::RunsError;

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {error}{}", mend(error))]
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: std::io::Error,
    },
    /// Everybody could reach the server, and nobody is asked who they are.
    #[error(
        "`{address}` can be reached from other machines, and nobody is asked who they are: use `.auth(…)`, or \
         `.without_auth()` if something in front of the server asks"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The database cannot be opened.
    #[error("the database `{scheme}:…` cannot be opened: {reason}")]
    Database {
        /// The kind of database; the rest of its address may hold a password.
        scheme: String,
        /// Why.
        reason: String,
    },
    /// The database has failed.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The server has failed.
    #[error("the server has failed: {0}")]
    Failed(#[from] std::io::Error),
    /// Webhooks cannot be told as they are configured.
    #[error("{0}")]
    Webhooks(String),
    /// Nothing is served.
    #[error("the server has no graph: add one with `.graph(name, compiled, context)`")]
    NoGraphs,
    /// An origin that no browser sends.
    #[error("`{origin}` is no origin of a browser: write it like `https://chat.example.org`")]
    Origin {
        /// What it is.
        origin: String,
    },
}

/// What can be done about an address that cannot be listened on.
fn mend(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => ": end the program that listens there, or give another port (0 takes any that is free)",
        ErrorKind::AddrNotAvailable => {
            ": no network of this machine has this address: `127.0.0.1` is this machine only, `0.0.0.0` all networks"
        }
        ErrorKind::PermissionDenied => ": ports below 1024 are the system's: give another, with a proxy in front",
        ErrorKind::InvalidInput => ": an address is a host and a port, like `127.0.0.1:8123`",
        _ => "",
    }
}
