//! What is queued for the connection that writes, and what becomes of it.

use std::panic::AssertUnwindSafe;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;

/// How a queued job may be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// With others in one transaction, by whoever comes first.
    Short,
    /// As a short one, and the last of its transaction: those after it see what has become of it.
    Last,
    /// With others in one transaction, by the thread.
    Long,
    /// In a transaction of its own, by the thread.
    Alone,
}

impl Work {
    pub(super) const fn is_short(self) -> bool {
        matches!(self, Self::Short | Self::Last)
    }

    pub(super) const fn ends_transaction(self) -> bool {
        matches!(self, Self::Last | Self::Alone)
    }
}

/// Something to be done in a transaction.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) run: Box<Run>,
}

/// Receives `Err` if no transaction could be started.
pub(super) type Run = dyn FnOnce(Result<&Connection, SaverError>) -> Ran + Send;

/// Reports the result of the job to the caller, once the transaction has been committed or not.
pub(super) type Reply = Box<dyn FnOnce(Result<(), SaverError>) + Send>;

/// What was done and not yet committed.
pub(super) struct Ran {
    /// Why it must not be committed.
    pub(super) failed: Option<SaverError>,
    pub(super) reply: Reply,
}

impl Job {
    /// A job, and what it will answer.
    pub(super) fn new<T: Send + 'static>(
        place: String,
        work: Work,
        run: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, SaverError>>) {
        let (answer, answered) = oneshot::channel();
        let run = move |connection: Result<&Connection, SaverError>| {
            let result = connection.map_err(Fault::Saver).and_then(run).map_err(|fault| fault.tell(&place));
            let failed = result.as_ref().err().cloned();
            // A call that was dropped waits for no answer.
            let reply = move |committed: Result<(), SaverError>| {
                let _ = answer.send(result.and_then(|value| committed.map(|()| value)));
            };
            Ran { failed, reply: Box::new(reply) }
        };
        (Self { work, run: Box::new(run) }, answered)
    }

    /// Does it; nothing comes of it if it panics.
    pub(super) fn run(self, connection: Result<&Connection, SaverError>) -> Option<Ran> {
        std::panic::catch_unwind(AssertUnwindSafe(|| (self.run)(connection))).ok()
    }
}
