//! The queue of the [writer](super::writer), and the transactions in which it is done: by whoever has the connection.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::{Connection, ErrorCode};

use super::contention::Contention;
use super::fault::Fault;
use super::job::{Job, Ran, Reply, Work};
use super::log::Log;
use super::sync::{Condvar, Mutex, MutexGuard};

/// How many calls share a transaction at most.
const MOST: usize = 1_000;
/// How long the thread lets those who write for many take.
const LOOKS_AFTER: Duration = Duration::from_millis(5);
/// How many calls a caller does for others at most.
pub(super) const MOST_FOR_OTHERS: usize = 64;

/// How the connection is used.
#[derive(Debug)]
pub(super) struct Manner {
    /// How long to wait for other processes.
    pub(super) busy_timeout: Duration,
    /// Whether a commit waits for the disk.
    pub(super) waits_for_disk: bool,
}

/// What the callers and the thread share.
pub(super) struct Shared {
    pub(super) place: String,
    pub(super) manner: Manner,
    queue: Mutex<Queue>,
    /// Wakes the thread.
    pub(super) awake: Condvar,
    /// None once it is closed. Jobs are taken from the queue by whoever has it.
    connection: Mutex<Option<Connection>>,
    pub(super) log: Arc<Log>,
    pub(super) contention: Contention,
}

/// What is to be written. Unless the thread is going to look at it, whoever queued the first of it does.
#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// How many were taken out of it, ever.
    taken: u64,
    /// Whether the thread has something to do.
    wanted: bool,
    closed: bool,
}

impl Queue {
    /// Adds what is to be done after everything that waits, and tells whether that is nothing.
    pub(super) fn add(&mut self, job: Job) -> bool {
        self.jobs.push_back(job);
        self.jobs.len() == 1
    }

    pub(super) fn add_before_all(&mut self, job: Job) {
        self.jobs.push_front(job);
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    fn take(&mut self) -> Option<Job> {
        self.taken = self.taken.wrapping_add(1);
        self.jobs.pop_front()
    }
}

impl Shared {
    pub(super) fn new(place: String, manner: Manner, log: Log) -> Self {
        let (queue, awake, connection) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { place, manner, queue, awake, connection, log: Arc::new(log), contention: Contention::default() }
    }

    pub(super) fn has_opened(&self, connection: Connection) {
        *self.connection() = Some(connection);
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, unless somebody is using it.
    pub(super) fn try_connection(&self) -> Option<MutexGuard<'_, Option<Connection>>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets the thread do what is queued.
    pub(super) fn wake(&self) {
        self.queue().wanted = true;
        self.awake.notify_one();
    }

    /// The thread does what is queued, and ends.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.awake.notify_one();
    }

    /// The life of the thread.
    pub(super) fn serve(&self) {
        loop {
            let closed = self.waits();
            let many_write = self.contention.is_present();
            if let Some(connection) = &*self.connection() {
                self.write(connection, true);
            }
            self.notify_free();
            self.log.write_back(many_write);
            let mut connection = self.connection();
            if let Some(connection) = &*connection {
                if closed {
                    self.write(connection, true);
                }
                self.log.shorten(connection, many_write);
            }
            if closed {
                *connection = None;
            }
            drop(connection);
            self.notify_free();
            if closed {
                return;
            }
        }
    }

    /// The thread waits until there is something to do, and tells whether that is to end. While many write it also looks now and then:
    /// whoever is to write for them may be a task that does not get its turn.
    fn waits(&self) -> bool {
        let mut queue = self.queue();
        while !queue.wanted && !queue.closed {
            if self.contention.is_present() || queue.len() > 0 {
                let before = queue.taken;
                let waited = self.awake.wait_timeout(queue, LOOKS_AFTER).unwrap_or_else(PoisonError::into_inner);
                queue = waited.0;
                if waited.1.timed_out() && queue.taken == before {
                    queue.wanted = queue.len() > 0;
                    if !queue.wanted {
                        self.contention.clear();
                    }
                }
            } else {
                queue = self.awake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        queue.wanted = false;
        queue.closed
    }

    /// Writes what is queued, as far as it is short; false if somebody else is at it, who says when it is free.
    pub(super) fn write_now(&self) -> bool {
        let Some(connection) = self.try_connection() else { return false };
        match &*connection {
            Some(open) => self.write(open, false),
            None => self.refuse_all(),
        }
        drop(connection);
        if self.log.is_long(self.contention.is_present()) {
            self.wake();
        }
        self.notify_free();
        true
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
            if !self.transaction(connection, is_thread) && !is_thread {
                // Nobody else comes for the rest.
                self.wake();
            }
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
        let job = self.queue().take();
        if let Some(job) = job {
            let ran = (job.run)(Err(error));
            (ran.reply)(Ok(()));
        }
    }

    /// Does what is queued in the transaction that has begun, and ends it. Tells whether nothing was left of what was queued.
    fn transaction(&self, connection: &Connection, is_thread: bool) -> bool {
        let (mut replies, mut ended) = (Vec::new(), Ok(()));
        let (mut calls, mut is_all) = (0, false);
        while let Some(job) = self.take(replies.len(), is_thread, &mut is_all) {
            calls += 1;
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
        self.counts(calls);
        for reply in replies {
            reply(ended.clone());
        }
        is_all
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

    /// The next that may share a transaction with so many others, and whether nothing else waits.
    fn take(&self, others: usize, is_thread: bool, is_all: &mut bool) -> Option<Job> {
        let most = if is_thread { MOST } else { MOST_FOR_OTHERS };
        let mut queue = self.queue();
        *is_all = queue.len() == 0;
        let fits = match queue.jobs.front()?.work {
            Work::Short | Work::Last => others < most,
            Work::Long => others < most && is_thread,
            Work::Alone => others == 0 && is_thread,
        };
        if !fits {
            return None;
        }
        *is_all = queue.len() == 1;
        queue.take()
    }
}

pub(super) fn given_up(place: &str) -> SaverError {
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
