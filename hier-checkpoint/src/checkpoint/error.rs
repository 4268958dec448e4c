use std::error::Error;
use std::sync::Arc;

use uuid::Uuid;

/// An error of a saver.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaverError {
    /// The lease of the run has ended before the run. Nothing was stored.
    #[error("{}", by.describe(thread))]
    Superseded {
        /// The id of the thread.
        thread: String,
        /// The event that ended the lease.
        by: SupersededBy,
    },
    /// A commit refers to a stored value that was deleted in the meantime. Nothing was stored.
    #[error(
        "a commit of thread `{thread}` needs version {version} of channel `{channel}`, which has been deleted; nothing was \
         stored: read the thread's state and continue from there, and do not prune a thread while a run continues from an \
         older checkpoint"
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
        "thread `{thread}` is being run by {holder}: try again when that run has ended, or wait for its end with \
         `Config::when_running(WhenRunning::Wait(…))`. If the process of that run was killed, wait until its lease expires \
         (30 seconds by default), or take over the thread at once with `WhenRunning::TakeOver`"
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
    /// Savers and stores also return this error for an unreadable row of a run store, and for an unreadable item.
    #[error("{place} cannot be used: {reason}")]
    Unusable {
        /// The file, the URL of the database without passwords, or the unreadable row or item.
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
        "the inbox of thread `{thread}` is full, because it would exceed {} bytes: send less, or wait until a run has \
         read the inbox and ended",
        super::INBOX_BYTES
    )]
    InboxFull {
        /// The id of the thread.
        thread: String,
    },
    /// The saver does not support the operation.
    #[error("this checkpointer does not support {what}: use one that does (`MemorySaver`, `Sqlite`, `Postgres`)")]
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

/// The event that ended the lease of a run before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupersededBy {
    /// Another claim has taken over the thread.
    Claim,
    /// The thread or its latest checkpoints were deleted, or a copy of another thread has replaced them.
    Deletion,
}

impl SupersededBy {
    fn describe(self, thread: &str) -> String {
        match self {
            Self::Claim => format!(
                "another run has taken over thread `{thread}`, and the later work of this run was not stored: read the thread's \
                 state and continue from there"
            ),
            Self::Deletion => format!(
                "thread `{thread}` or its latest checkpoints were deleted during this run, or replaced by a copy of another thread, and \
                 the later work of this run was not stored: start a new run, and delete and replace threads only when no run holds them"
            ),
        }
    }
}

impl SaverError {
    /// Creates the error [`Self::Superseded`] for a lease with this token. `current` is the token that the saver has
    /// stored for the thread. It is `None` or 0 if the thread was deleted or replaced.
    pub fn superseded(thread: &str, token: u64, current: Option<u64>) -> Self {
        // A lease with the current token was released, and the thread is free for other runs.
        let is_claimed = current.is_some_and(|current| current >= token);
        let by = if is_claimed { SupersededBy::Claim } else { SupersededBy::Deletion };
        Self::Superseded { thread: thread.to_owned(), by }
    }

    pub(crate) fn not_supported(what: &'static str) -> Self {
        Self::NotSupported { what }
    }

    /// Creates the error [`Self::Invalid`] for a commit that removes a message from the inbox of `thread`, although the
    /// inbox does not contain `message`.
    pub fn no_message(thread: &str, message: Uuid) -> Self {
        Self::Invalid(format!(
            "a commit takes message `{message}` from the inbox of thread `{thread}`, but an earlier commit has already taken it"
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
