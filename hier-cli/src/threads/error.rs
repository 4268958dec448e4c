//! What can go wrong with a command.

use std::io;

use hier_core::checkpoint::SaverError;

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// An argument that makes no sense, or a file that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The database failed.
    #[error(transparent)]
    Saver(SaverError),
    /// What was found could not be written.
    #[error("the answer could not be written: {0}")]
    Write(io::Error),
    /// There is no runtime to wait with.
    #[error("the system gives no means of waiting: {0}")]
    Runtime(io::Error),
}

impl Error {
    /// Whether nothing was found, where everything else went well.
    pub fn is_nothing_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}
