//! Who writes: whoever comes first, for all that are waiting; a thread of its own where it may take long.
//!
//! A commit takes tens of microseconds, and waking a thread as long again, twice. So a caller that finds nobody writing does
//! it itself, together with what others have queued meanwhile. What may take long (deleting, waiting for another process or
//! for the disk, writing the log back) is left to the thread, since it would keep the caller's other tasks waiting.
//!
//! Locks and threads are named by `super::sync`, so that `tests/interleavings` can run this file under a scheduler that tries
//! many interleavings.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, TryLockError, Weak};
use std::time::Duration;

use hier_core::checkpoint::SaverError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::fault::Fault;
pub(super) use super::job::Work;
use super::job::{Job, Ran, Reply};
use super::log::Log;
use super::sync::{Builder, Condvar, JoinHandle, Mutex, MutexGuard};

/// How many calls share a transaction at most.
const MOST: usize = 1_000;
/// How many calls a caller does for others at most.
const MOST_FOR_OTHERS: usize = 32;

/// How the connection is used.
#[derive(Debug)]
pub(super) struct Manner {
    /// How long to wait for other processes.
    pub(super) busy_timeout: Duration,
    /// Whether a commit waits for the disk.
    pub(super) waits_for_disk: bool,
}

/// The one connection that writes, and what is queued for it.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    place: String,
    manner: Manner,
    queue: Mutex<Queue>,
    /// Wakes the thread.
    awake: Condvar,
    /// None once it is closed. Jobs are taken from the queue by whoever has it.
    connection: Mutex<Option<Connection>>,
    log: Arc<Log>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Whether the thread has something to do.
    wanted: bool,
    closed: bool,
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
        let shared = Arc::new(Shared {
            place: place.clone(),
            manner,
            queue: Mutex::default(),
            awake: Condvar::new(),
            connection: Mutex::default(),
            log: Arc::new(log),
        });
        let own = shared.clone();
        let open = move |log: &Arc<Log>| {
            let mut connection = open()?;
            log.watch(&mut connection)?;
            Ok::<_, Fault>(connection)
        };
        let run = move || match open(&own.log) {
            Ok(connection) => {
                *own.connection() = Some(connection);
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
        shared.queue().jobs.push_back(job);
        let call = Call { shared, is_open: true };
        async move {
            if work.is_short() && !call.shared.manner.waits_for_disk {
                call.shared.write_now();
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

    /// Waits until all that was queued is done and the file is closed.
    pub(super) fn close(mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // It has ended either way.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.close();
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
            shared.queue().jobs.push_front(job);
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

/// The connection, lent for reading. What was queued meanwhile found it taken: then the thread does it.
struct Reading<'a> {
    shared: &'a Shared,
    connection: Option<MutexGuard<'a, Option<Connection>>>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.connection = None;
        if !self.shared.queue().jobs.is_empty() {
            self.shared.wake();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, unless somebody is using it.
    fn try_connection(&self) -> Option<MutexGuard<'_, Option<Connection>>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets the thread do what is queued.
    fn wake(&self) {
        self.queue().wanted = true;
        self.awake.notify_one();
    }

    /// The thread does what is queued, and ends.
    fn close(&self) {
        self.queue().closed = true;
        self.awake.notify_one();
    }

    /// The life of the thread.
    fn serve(&self) {
        loop {
            let closed = {
                let queue = self.queue();
                let idle = |queue: &mut Queue| !queue.wanted && !queue.closed;
                let mut queue = self.awake.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
                queue.wanted = false;
                queue.closed
            };
            if let Some(connection) = &*self.connection() {
                self.write(connection, true);
            }
            self.log.send_to_disk();
            let mut connection = self.connection();
            if let Some(connection) = &*connection {
                if closed {
                    self.write(connection, true);
                }
                self.log.shorten(connection);
            }
            if closed {
                *connection = None;
                return;
            }
            drop(connection);
            // What came after the last look, from somebody who saw that the connection is taken.
            if !self.queue().jobs.is_empty() {
                self.queue().wanted = true;
            }
        }
    }

    /// Writes what is queued, unless somebody else is at it, who then looks again.
    fn write_now(&self) {
        let Some(connection) = self.try_connection() else { return };
        let Some(open) = &*connection else { return self.refuse_all() };
        self.write(open, false);
        drop(connection);
        // What came meanwhile, is not short, or could not be written since another process is writing.
        if self.log.is_long() || !self.queue().jobs.is_empty() {
            self.wake();
        }
    }

    /// Writes what is queued; if it is not the thread, only what is short.
    fn write(&self, connection: &Connection, is_thread: bool) {
        let patience = if is_thread { self.manner.busy_timeout } else { Duration::ZERO };
        // Cannot fail in practice: it only stores the timeout.
        let _ = connection.busy_timeout(patience);
        loop {
            let next = self.queue().jobs.front().map(|job| job.work);
            match next {
                Some(work) if is_thread || work.is_short() => {}
                _ => return,
            }
            if let Err(error) = begin(connection) {
                if !is_thread && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) {
                    return;
                }
                self.refuse(self.tell(error));
                continue;
            }
            self.transaction(connection, is_thread);
            if !is_thread {
                return;
            }
        }
    }

    /// Fails the queued jobs: the file is gone.
    fn refuse_all(&self) {
        while !self.queue().jobs.is_empty() {
            self.refuse(given_up(&self.place));
        }
    }

    /// Fails the first job of the queue: no transaction could be started.
    fn refuse(&self, error: SaverError) {
        let job = self.queue().jobs.pop_front();
        if let Some(job) = job {
            let ran = (job.run)(Err(error));
            (ran.reply)(Ok(()));
        }
    }

    /// Does what is queued in the transaction that has begun, and ends it.
    fn transaction(&self, connection: &Connection, is_thread: bool) {
        let (mut replies, mut ended) = (Vec::new(), Ok(()));
        while let Some(job) = self.take(replies.len(), is_thread) {
            let is_last = job.work.ends_transaction();
            let is_first = replies.is_empty();
            match self.attempt(job, connection, is_first) {
                Ok(reply) => replies.extend(reply),
                Err(error) => ended = Err(error),
            }
            if is_last || replies.is_empty() || ended.is_err() {
                break;
            }
        }
        if ended.is_ok() && !replies.is_empty() {
            ended = execute(connection, "commit").map_err(|error| self.tell(error));
        }
        if !connection.is_autocommit() {
            // If even this fails, the next `begin` says so.
            let _ = execute(connection, "rollback");
        }
        for reply in replies {
            reply(ended.clone());
        }
    }

    /// Does a job in the transaction. If it fails it is undone, its caller is told, and there is no reply; an error if the
    /// whole transaction has been undone with it. The first needs no savepoint, as there is nobody else to be spared.
    fn attempt(&self, job: Job, connection: &Connection, is_first: bool) -> Result<Option<Reply>, SaverError> {
        let savepoint = |sql: &str| {
            let done = if is_first { Ok(()) } else { execute(connection, sql) };
            done.map_err(|error| self.tell(error))
        };
        let begun = savepoint("savepoint job");
        // If it panics, the reply is dropped with it, which tells the caller.
        let ran = job.run(begun.map(|()| connection));
        let (failed, reply) = match ran {
            Some(Ran { failed, reply }) => (failed, Some(reply)),
            None => (Some(given_up(&self.place)), None),
        };
        let Some(error) = failed else { return savepoint("release job").map(|()| reply) };
        let undone = if connection.is_autocommit() {
            // SQLite has undone everything, as it does when the disk is full.
            Err(error)
        } else {
            savepoint("rollback to job").and_then(|()| savepoint("release job"))
        };
        if let Some(reply) = reply {
            reply(Ok(()));
        }
        undone.map(|()| None)
    }

    fn tell(&self, error: rusqlite::Error) -> SaverError {
        Fault::from(error).tell(&self.place)
    }

    /// The next that may share a transaction with so many others.
    fn take(&self, others: usize, is_thread: bool) -> Option<Job> {
        let most = if is_thread { MOST } else { MOST_FOR_OTHERS };
        let mut queue = self.queue();
        let fits = match queue.jobs.front()?.work {
            Work::Short | Work::Last => others < most,
            Work::Long => others < most && is_thread,
            Work::Alone => others == 0 && is_thread,
        };
        if fits { queue.jobs.pop_front() } else { None }
    }
}

fn given_up(place: &str) -> SaverError {
    SaverError::Unusable {
        place: place.to_owned(),
        reason: "the call was given up: it was closed meanwhile, or something in it panicked".to_owned(),
    }
}

fn begin(connection: &Connection) -> Result<(), rusqlite::Error> {
    if !connection.is_autocommit() {
        // Somebody panicked in the middle of it.
        execute(connection, "rollback")?;
    }
    execute(connection, "begin immediate")
}

fn execute(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
