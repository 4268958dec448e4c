//! The errors of commands.

use std::io;

use hier_core::checkpoint::SaverError;

/// The error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// The thread or checkpoint does not exist.
    #[error("{0}")]
    NotFound(String),
    /// An argument is invalid, or a file cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The database failed.
    #[error(transparent)]
    Saver(SaverError),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
    /// The async runtime could not be started.
    #[error("cannot start the async runtime: {0}")]
    Runtime(io::Error),
}

impl ThreadsError {
    /// Returns true if the command only found nothing.
    pub fn is_nothing_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
