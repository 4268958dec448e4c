use std::io::ErrorKind;
use std::net::SocketAddr;

use hier_core::runs::RunsError;

/// The reason why a server cannot start or has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server cannot listen on the address, for example because another program uses the port.
    #[error("cannot listen on `{address}`: {error}{}", hint(error))]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Other machines can reach the address, but the server does not authenticate users.
    #[error(
        "`{address}` can be reached from other machines, and the server does not authenticate users: add `.auth(…)`, or \
         `.without_auth()` behind a proxy that authenticates"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The database cannot be opened.
    #[error("the database `{scheme}:…` cannot be opened: {reason}")]
    Database {
        /// The scheme of the database URL. The error omits the rest of the URL, which may contain a password.
        scheme: String,
        /// The reason.
        reason: String,
    },
    /// The database failed while the server started.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The address of the server could not be read, or the server panicked.
    #[error("the server failed: {0}")]
    Failed(#[from] std::io::Error),
    /// The options of webhooks are invalid. The string is the reason.
    #[error("{0}")]
    Webhooks(String),
    /// The state of a graph has a secret channel, but the database does not encrypt values.
    #[error(
        "channel `{channel}` of graph `{graph}` is secret, but the database does not encrypt: open it with a key, for example with \
         `Sqlite::options().encrypt(&key)`, and pass it to `.storage(…)`"
    )]
    Unencrypted {
        /// The name of the graph.
        graph: String,
        /// The name of the channel.
        channel: String,
    },
    /// The server has no graph.
    #[error("the server has no graph: add one with `.graph(name, compiled, context)`")]
    NoGraphs,
    /// An origin in [`Server::allow_origins`](crate::Server::allow_origins) does not consist of a scheme and a host.
    #[error("invalid origin `{origin}`: write it like `https://chat.example.org`")]
    Origin {
        /// The origin.
        origin: String,
    },
}

/// Returns a hint for an address that cannot be bound.
fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => ": stop the program that uses the port, or choose another port (0 selects a free one)",
        ErrorKind::AddrNotAvailable => {
            ": no network of this machine has the address: use `127.0.0.1` for this machine, or `0.0.0.0` for all networks"
        }
        ErrorKind::PermissionDenied => ": ports below 1024 are privileged: choose another one, behind a proxy",
        ErrorKind::InvalidInput => ": write a host and a port, like `127.0.0.1:8123`",
        _ => "",
    }
}
