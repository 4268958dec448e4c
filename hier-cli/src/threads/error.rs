//! The errors of the commands about threads.

use std::io;

use hier_core::checkpoint::SaverError;

/// The error of a command about threads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// The command found nothing, for example because the thread does not exist.
    #[error("{0}")]
    NotFound(String),
    /// An argument is invalid, or the command cannot use a file.
    #[error("{0}")]
    Usage(String),
    /// The database failed.
    #[error(transparent)]
    Saver(SaverError),
    /// The command could not write its output.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
    /// The command could not start the async runtime.
    #[error("cannot start the async runtime: {0}")]
    Runtime(io::Error),
}

impl ThreadsError {
    /// Returns true for [`NotFound`](Self::NotFound): the command did not fail, but found nothing.
    pub fn is_nothing_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
