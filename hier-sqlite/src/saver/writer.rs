//! The connection that writes. Callers use it for short jobs, a dedicated thread for long ones.
//!
//! A commit takes tens of microseconds, and waking a thread twice takes as long again. Therefore a caller that finds
//! the connection idle executes its job itself, together with the jobs that others have queued. Long jobs (deleting,
//! waiting for another process or for the disk, writing the log back) are left to the thread, because they would delay
//! other tasks of the caller.
//!
//! Under contention, most of a transaction's time is spent on pages that every job changes. The first caller in the
//! queue then lets others queue their jobs and writes for all ([`super::contention`]).
//!
//! `super::sync` names locks and threads, so that `tests/interleavings` can run this file under a scheduler that
//! explores interleavings.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
pub(super) use super::job::JobClass;
use super::job::WriteJob;
use super::log::WriteAheadLog;
use super::sync::{Builder, JoinHandle, MutexGuard};
pub(super) use super::write_queue::WriterConfig;
use super::write_queue::{WriterShared, abandoned};

pub(super) struct SqliteWriter {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteWriter {
    /// Starts the thread and opens the connection there.
    pub(super) async fn start(
        place: String,
        config: WriterConfig,
        log: WriteAheadLog,
        open: impl FnOnce() -> Result<Connection, Fault> + Send + 'static,
    ) -> Result<Self, SaverError> {
        let (opened, is_open) = oneshot::channel();
        let shared = Arc::new(WriterShared::new(place.clone(), config, log));
        let own = shared.clone();
        let open = move |log: &Arc<WriteAheadLog>| {
            let mut connection = open()?;
            log.watch(&mut connection)?;
            Ok::<_, Fault>(connection)
        };
        let run = move || match open(&own.log) {
            Ok(connection) => {
                own.has_opened(connection);
                // If the opening was cancelled, no caller waits and there are no jobs.
                let _ = opened.send(Ok(()));
                own.serve();
            }
            Err(fault) => drop(opened.send(Err(fault.into_saver_error(&own.place)))),
        };
        let thread = Builder::new().name("hier-sqlite".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| SaverError::database("cannot start the thread that writes to the file", error))?;
        let writer = Self { shared, thread: Some(thread) };
        is_open.await.map_err(|_| abandoned(&place))??;
        Ok(writer)
    }

    /// Queues a job. Jobs are executed in the order of these calls, even if the future is dropped.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: JobClass,
        run: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SaverError>> + Send + 'static {
        let shared = self.shared.clone();
        let (job, answered) = WriteJob::new(shared.place.clone(), work, run);
        let is_first = shared.queue().add(job);
        let call = PendingCall { shared, is_open: true };
        async move {
            if work.is_short() && !call.shared.config.waits_for_disk {
                call.shared.complete(is_first, &answered).await;
            } else {
                call.shared.wake();
            }
            let answer = answered.await.map_err(|_| abandoned(&call.shared.place));
            call.end();
            answer?
        }
    }

    /// Reads with the connection that writes, if it is idle. A small read takes less time than waking a reader thread.
    /// Returns `None` if the connection is in use or closed.
    pub(super) fn read_now<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        let connection = self.shared.try_connection()?;
        let reading = Reading { shared: &self.shared, connection: Some(connection) };
        let connection = reading.connection.as_ref().and_then(|connection| connection.as_ref())?;
        if !connection.is_autocommit() {
            // A panic interrupted a transaction, which the next one rolls back.
            return None;
        }
        // It only stores the timeout, so it does not fail in practice.
        let _ = connection.busy_timeout(Duration::ZERO);
        Some(read(connection))
    }

    /// Fails if the file or its log was deleted, moved or replaced. Another connection would open the wrong files.
    pub(super) fn check_file(&self) -> Result<(), SaverError> {
        self.shared.check_file()
    }

    /// Returns a handle to the front of the queue, for jobs that must precede all others.
    pub(super) fn front(&self) -> FrontOfQueue {
        FrontOfQueue(Arc::downgrade(&self.shared))
    }
}

impl Drop for SqliteWriter {
    /// Waits for the thread, because a program that ends would leave the log behind.
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // The thread has ended in either case.
            let _ = thread.join();
        }
    }
}

/// A handle to the front of the queue.
pub(super) struct FrontOfQueue(Weak<WriterShared>);

impl FrontOfQueue {
    /// Queues a job before all others. The thread executes it.
    pub(super) fn submit(&self, run: impl FnOnce(&Connection) -> Result<(), Fault> + Send + 'static) {
        // After the file is closed, there is nothing to undo.
        if let Some(shared) = self.0.upgrade() {
            let (job, _) = WriteJob::new(shared.place.clone(), JobClass::Short, run);
            shared.queue().add_before_all(job);
            shared.wake();
        }
    }
}

/// Wakes the thread if the future is dropped before its job was executed.
struct PendingCall {
    shared: Arc<WriterShared>,
    is_open: bool,
}

impl PendingCall {
    fn end(mut self) {
        self.is_open = false;
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.wake();
        }
    }
}

/// The connection while it is lent for reading.
struct Reading<'a> {
    shared: &'a WriterShared,
    connection: Option<MutexGuard<'a, Option<Connection>>>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.connection = None;
        self.shared.contention.notify_free();
    }
}
