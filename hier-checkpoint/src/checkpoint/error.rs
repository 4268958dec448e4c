use std::error::Error;
use std::sync::Arc;

use uuid::Uuid;

/// An error of a saver.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// Another claim has taken over the thread. Nothing was stored.
    #[error(
        "thread `{thread}` has been taken over by another run, and the later work of this run was not stored: read the \
         thread's state and continue from there"
    )]
    Superseded {
        /// The id of the thread.
        thread: String,
    },
    /// A commit refers to a stored value that was deleted in the meantime. Nothing was stored.
    #[error(
        "thread `{thread}` no longer has version {version} of channel `{channel}`, on which a commit builds: the version was \
         deleted meanwhile, and nothing was stored; read the thread's state and continue from there, and prune threads \
         while no run continues from their older checkpoints"
    )]
    Gone {
        /// The id of the thread.
        thread: String,
        /// The name of the channel.
        channel: String,
        /// The version of the value, which is the id of the checkpoint that stored the value.
        version: Uuid,
    },
    /// The thread was deleted, and another thread may have its id by now. Nothing was stored.
    #[error("thread `{thread}` was deleted: create it again")]
    Deleted {
        /// The id of the thread.
        thread: String,
    },
    /// Another run holds the thread.
    #[error(
        "thread `{thread}` is being run by {holder}: try again when that run has ended, or give `Config::when_running` \
         `WhenRunning::Wait(…)` to wait for it. If that process was killed, its thread is free once the lease has run out \
         (30 s by default): wait as long, or take it over at once with `WhenRunning::TakeOver`"
    )]
    Busy {
        /// The id of the thread.
        thread: String,
        /// The name of the run that holds the lease.
        holder: String,
    },
    /// The stored bytes are damaged, were moved from another row, or were encrypted with another key.
    #[error("the stored data of thread `{thread}` cannot be read: {reason}")]
    Damaged {
        /// The id of the thread.
        thread: String,
        /// The reason.
        reason: String,
    },
    /// The file or database cannot be opened, belongs to another program, or was written by a newer version of hier.
    #[error("{place} cannot be used: {reason}")]
    Unusable {
        /// The file or the URL of the database, without passwords.
        place: String,
        /// The reason, and how to fix it.
        reason: String,
    },
    /// The database did not respond, or returned an error. A retry may succeed.
    #[error("{what}: {source}")]
    Database {
        /// The operation that failed.
        what: String,
        /// The error of the database.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The inbox of a thread is full.
    #[error(
        "the inbox of thread `{thread}` is full: it would hold more than {} bytes; let its run take what waits and end, or send less",
        super::INBOX_BYTES
    )]
    InboxFull {
        /// The id of the thread.
        thread: String,
    },
    /// The saver does not support the operation.
    #[error("this checkpointer has no {what}: use one that has (`MemorySaver`, `Sqlite`, `Postgres`)")]
    NotSupported {
        /// The missing capability.
        what: &'static str,
    },
    /// The saver panicked.
    #[error("the checkpointer panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The call has an invalid argument. The string is the reason.
    #[error("{0}")]
    Invalid(String),
}

impl SaverError {
    pub(crate) fn not_supported(what: &'static str) -> Self {
        Self::NotSupported { what }
    }

    /// Creates the error that a saver returns if a message that a commit removes is not in the inbox.
    pub fn no_message(thread: &str, message: Uuid) -> Self {
        Self::Invalid(format!(
            "the inbox of thread `{thread}` has no message `{message}`, which a commit takes: it was taken before"
        ))
    }

    /// Creates the error [`Self::Deleted`].
    pub fn deleted(thread: &str) -> Self {
        Self::Deleted { thread: thread.to_owned() }
    }

    /// Creates the error [`Self::Database`]. `what` names the operation that failed.
    pub fn database(what: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Database { what: what.into(), source: Arc::new(source) }
    }
}

/// The error for a value that cannot be encoded or decoded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub(crate) String);

impl CodecError {
    #[doc(hidden)]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl serde::ser::Error for CodecError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

impl serde::de::Error for CodecError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}
