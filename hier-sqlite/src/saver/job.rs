//! Jobs for the connection that writes.

use std::panic::AssertUnwindSafe;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;

/// The scheduling of a queued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobClass {
    /// Shares a transaction with other jobs. Any caller may execute it.
    Short,
    /// Like a short job, but ends its transaction, so that later jobs see its effect.
    Last,
    /// Shares a transaction with other jobs. Only the thread executes it.
    Long,
    /// Has a separate transaction. Only the thread executes it.
    Alone,
}

impl JobClass {
    pub(super) const fn is_short(self) -> bool {
        matches!(self, Self::Short | Self::Last)
    }

    pub(super) const fn ends_transaction(self) -> bool {
        matches!(self, Self::Last | Self::Alone)
    }
}

pub(super) struct WriteJob {
    pub(super) work: JobClass,
    pub(super) run: Box<JobBody>,
}

/// Receives `Err` if no transaction could be started.
pub(super) type JobBody = dyn FnOnce(Result<&Connection, SaverError>) -> Executed + Send;

/// Reports the result to the caller, once the transaction has been committed or rolled back.
pub(super) type Reply = Box<dyn FnOnce(Result<(), SaverError>) + Send>;

pub(super) struct Executed {
    /// The error that requires a rollback of the job.
    pub(super) failed: Option<SaverError>,
    pub(super) reply: Reply,
}

impl WriteJob {
    /// Creates a job and the receiver of its result.
    pub(super) fn new<T: Send + 'static>(
        place: String,
        work: JobClass,
        run: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, SaverError>>) {
        let (answer, answered) = oneshot::channel();
        let run = move |connection: Result<&Connection, SaverError>| {
            let result = connection.map_err(Fault::Saver).and_then(run).map_err(|fault| fault.into_saver_error(&place));
            let failed = result.as_ref().err().cloned();
            // If the caller was dropped, no task receives the result.
            let reply = move |committed: Result<(), SaverError>| {
                let _ = answer.send(result.and_then(|value| committed.map(|()| value)));
            };
            Executed { failed, reply: Box::new(reply) }
        };
        (Self { work, run: Box::new(run) }, answered)
    }

    /// Executes the job. Returns `None` if it panics.
    pub(super) fn execute(self, connection: Result<&Connection, SaverError>) -> Option<Executed> {
        std::panic::catch_unwind(AssertUnwindSafe(|| (self.run)(connection))).ok()
    }
}
