//! What can go wrong with a saver.

use std::error::Error;
use std::sync::Arc;

use uuid::Uuid;

/// Why a saver could not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// Somebody else has taken the thread over since. Nothing was stored.
    #[error(
        "thread `{thread}` has been taken over by another run; what this run did since was not stored: read the thread's \
         state and go on from there"
    )]
    Superseded {
        /// The thread.
        thread: String,
    },
    /// What a commit builds on has been deleted meanwhile. Nothing was stored.
    #[error(
        "thread `{thread}` has version {version} of channel `{channel}` no longer, on which a commit builds: it was deleted \
         meanwhile, and nothing was stored; read the thread's state and go on from there, and prune threads while nobody \
         goes on from their older checkpoints"
    )]
    Gone {
        /// The thread.
        thread: String,
        /// The channel.
        channel: String,
        /// The checkpoint that had brought the value.
        version: Uuid,
    },
    /// Somebody else runs the thread.
    #[error(
        "thread `{thread}` is being run by {holder}: wait for it (`WhenRunning::Wait`), take it over \
         (`WhenRunning::TakeOver`), or try again later"
    )]
    Busy {
        /// The thread.
        thread: String,
        /// Who runs it.
        holder: String,
    },
    /// What was read is not what was stored: the file is damaged, was encrypted with another key, or was moved.
    #[error("what is stored of thread `{thread}` cannot be read: {reason}")]
    Damaged {
        /// The thread.
        thread: String,
        /// What is wrong.
        reason: String,
    },
    /// The file or database is none of ours, or of a newer version, or cannot be opened.
    #[error("{place} cannot be used: {reason}")]
    Unusable {
        /// The file or database, without passwords.
        place: String,
        /// What is wrong, and how to mend it.
        reason: String,
    },
    /// The database did not answer, or refused. Another attempt may help.
    #[error("{what}: {source}")]
    Database {
        /// What was being done.
        what: String,
        /// What the database said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The saver panicked.
    #[error("the checkpointer panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl SaverError {
    /// The database failed at something.
    pub fn database(what: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Database { what: what.into(), source: Arc::new(source) }
    }
}

/// Why a value could not be encoded or decoded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub(crate) String);

impl CodecError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}
