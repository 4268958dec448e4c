//! Who writes: whoever comes first, for all that are waiting; a thread of its own where it may take long.
//!
//! A commit takes tens of microseconds, and waking a thread as long again, twice. So a caller that finds nobody writing does
//! it itself, together with what others have queued meanwhile. What may take long (deleting, waiting for another process or
//! for the disk, writing the log back) is left to the thread, since it would keep the caller's other tasks waiting.
//!
//! Where many write, most of a transaction's time goes to pages that each of them changes. There the first in the queue lets the others
//! queue first, as long as more of them come, and then writes for all ([`super::contention`]).
//!
//! Locks and threads are named by `super::sync`, so that `tests/interleavings` can run this file under a scheduler that tries
//! many interleavings.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::job::Job;
pub(super) use super::job::Work;
use super::log::Log;
use super::sync::{Builder, JoinHandle, MutexGuard};
pub(super) use super::writing::Manner;
use super::writing::{Shared, given_up};

/// The one connection that writes, and what is queued for it.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, and opens the connection there.
    pub(super) async fn start(
        place: String,
        manner: Manner,
        log: Log,
        open: impl FnOnce() -> Result<Connection, Fault> + Send + 'static,
    ) -> Result<Self, SaverError> {
        let (opened, is_open) = oneshot::channel();
        let shared = Arc::new(Shared::new(place.clone(), manner, log));
        let own = shared.clone();
        let open = move |log: &Arc<Log>| {
            let mut connection = open()?;
            log.watch(&mut connection)?;
            Ok::<_, Fault>(connection)
        };
        let run = move || match open(&own.log) {
            Ok(connection) => {
                own.has_opened(connection);
                // Nobody waits for it if the opening was cancelled; then there are no jobs either.
                let _ = opened.send(Ok(()));
                own.serve();
            }
            Err(fault) => drop(opened.send(Err(fault.tell(&own.place)))),
        };
        let thread = Builder::new().name("hier-sqlite".to_owned()).spawn(run);
        let thread = thread.map_err(|error| SaverError::database("the thread that writes cannot start", error))?;
        let writer = Self { shared, thread: Some(thread) };
        is_open.await.map_err(|_| given_up(&place))??;
        Ok(writer)
    }

    /// Queues something. It is done in the order of these calls, even if the future is dropped.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: Work,
        run: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SaverError>> + Send + 'static {
        let shared = self.shared.clone();
        let (job, answered) = Job::new(shared.place.clone(), work, run);
        let is_first = shared.queue().add(job);
        let call = Call { shared, is_open: true };
        async move {
            if work.is_short() && !call.shared.manner.waits_for_disk {
                call.shared.complete(is_first, &answered).await;
            } else {
                call.shared.wake();
            }
            let answer = answered.await.map_err(|_| given_up(&call.shared.place));
            call.end();
            answer?
        }
    }

    /// Reads with the connection that writes, if nobody is using it: what is short takes less time than waking a thread that reads. None
    /// if somebody is, or the file is closed.
    pub(super) fn read_now<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        let connection = self.shared.try_connection()?;
        let reading = Reading { shared: &self.shared, connection: Some(connection) };
        let connection = reading.connection.as_ref().and_then(|connection| connection.as_ref())?;
        if !connection.is_autocommit() {
            // Somebody panicked in the middle of a transaction, which the next one undoes.
            return None;
        }
        // Cannot fail in practice: it only stores the timeout.
        let _ = connection.busy_timeout(Duration::ZERO);
        Some(read(connection))
    }

    /// The head of the queue, for what must be undone before anybody else is served.
    pub(super) fn head(&self) -> Head {
        Head(Arc::downgrade(&self.shared))
    }
}

impl Drop for Writer {
    /// Waits for the thread: a program that ends would leave the log behind.
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // It has ended either way.
            let _ = thread.join();
        }
    }
}

/// The head of the queue.
pub(super) struct Head(Weak<Shared>);

impl Head {
    /// Queues something before everything that waits; the thread does it.
    pub(super) fn submit(&self, run: impl FnOnce(&Connection) -> Result<(), Fault> + Send + 'static) {
        // Once the file is closed there is nothing to undo it in.
        if let Some(shared) = self.0.upgrade() {
            let (job, _) = Job::new(shared.place.clone(), Work::Short, run);
            shared.queue().add_before_all(job);
            shared.wake();
        }
    }
}

/// A call whose future may be dropped before anybody has done what it queued: then the thread does it.
struct Call {
    shared: Arc<Shared>,
    is_open: bool,
}

impl Call {
    fn end(mut self) {
        self.is_open = false;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.is_open {
            self.shared.wake();
        }
    }
}

/// The connection, lent for reading.
struct Reading<'a> {
    shared: &'a Shared,
    connection: Option<MutexGuard<'a, Option<Connection>>>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.connection = None;
        self.shared.notify_free();
    }
}
