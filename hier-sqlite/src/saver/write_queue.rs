//! The queue of the [writer](super::writer), and the transactions that execute its jobs.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::contention::Contention;
use super::fault::Fault;
use super::job::{Executed, JobClass, Reply, WriteJob};
use super::log::WriteAheadLog;
use super::open_file::OpenFile;
use super::sync::{Condvar, Mutex, MutexGuard};

/// The maximum number of jobs in a transaction of the thread.
const MAX_JOBS: usize = 1_000;
/// The interval at which the thread checks on callers that write for others.
const MONITOR_INTERVAL: Duration = Duration::from_millis(5);
/// The maximum number of jobs that a caller executes for others.
const MAX_JOBS_FOR_OTHERS: usize = 64;
/// The number of times that a caller yields while others queue jobs.
const ROUNDS: usize = 8;

/// The settings of the connection.
#[derive(Debug)]
pub(super) struct WriterConfig {
    pub(super) busy_timeout: Duration,
    /// True if a commit waits for the disk.
    pub(super) waits_for_disk: bool,
}

/// The state that callers and the thread share.
pub(super) struct WriterShared {
    pub(super) place: String,
    pub(super) config: WriterConfig,
    queue: Mutex<JobQueue>,
    awake: Condvar,
    /// `None` after closing. The holder of the lock takes jobs from the queue.
    connection: Mutex<Option<Connection>>,
    /// Empty if the file cannot be identified.
    file: OnceLock<OpenFile>,
    pub(super) log: Arc<WriteAheadLog>,
    pub(super) contention: Contention,
}

/// The queued jobs. Unless the thread is about to run, the caller that queued the first one executes them.
#[derive(Default)]
pub(super) struct JobQueue {
    jobs: VecDeque<WriteJob>,
    /// The number of jobs that were ever removed.
    taken: u64,
    /// True if the thread has jobs to execute.
    wanted: bool,
    closed: bool,
}

impl JobQueue {
    /// Appends a job. Returns true if the queue was empty.
    pub(super) fn add(&mut self, job: WriteJob) -> bool {
        self.jobs.push_back(job);
        self.jobs.len() == 1
    }

    pub(super) fn add_before_all(&mut self, job: WriteJob) {
        self.jobs.push_front(job);
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    fn take_first(&mut self) -> Option<WriteJob> {
        self.taken = self.taken.wrapping_add(1);
        self.jobs.pop_front()
    }
}

impl WriterShared {
    pub(super) fn new(place: String, config: WriterConfig, log: WriteAheadLog) -> Self {
        let (queue, awake, connection) = (Mutex::default(), Condvar::new(), Mutex::default());
        let (log, file, contention) = (Arc::new(log), OnceLock::new(), Contention::default());
        Self { place, config, queue, awake, connection, file, log, contention }
    }

    pub(super) fn has_opened(&self, connection: Connection) {
        if let Some(file) = OpenFile::of(&connection) {
            self.file.get_or_init(|| file);
        }
        *self.connection() = Some(connection);
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, unless it is in use.
    pub(super) fn try_connection(&self) -> Option<MutexGuard<'_, Option<Connection>>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Completes the queued jobs. The caller that queued the first one also executes the jobs of others.
    pub(super) async fn complete<T>(&self, is_first: bool, answered: &oneshot::Receiver<T>) {
        if self.contention.is_present() {
            if !is_first {
                return;
            }
            self.let_others_queue(answered).await;
        }
        while answered.is_empty() {
            if self.write_now() {
                if answered.is_empty() {
                    // A job ahead of it is not short, or another process is writing.
                    self.wake();
                }
                return;
            }
            if self.contention.begin() {
                self.monitor_callers();
            }
            if !is_first {
                return;
            }
            self.contention.wait_until_free().await;
        }
        // This caller may have consumed the signal of the next one.
        self.contention.notify_free();
    }

    /// Yields to other tasks while they queue jobs.
    async fn let_others_queue<T>(&self, answered: &oneshot::Receiver<T>) {
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let queued = self.queue().len();
            if queued <= seen || queued >= MAX_JOBS_FOR_OTHERS || !answered.is_empty() {
                return;
            }
            seen = queued;
            tokio::task::yield_now().await;
        }
    }

    /// Makes the thread monitor the callers that write for others.
    fn monitor_callers(&self) {
        // The lock ensures that the thread is not between reading the level and sleeping.
        drop(self.queue());
        self.awake.notify_one();
    }

    pub(super) fn wake(&self) {
        self.queue().wanted = true;
        self.awake.notify_one();
    }

    /// Makes the thread execute the queue and end.
    pub(super) fn close(&self) {
        self.queue().closed = true;
        self.awake.notify_one();
    }

    pub(super) fn serve(&self) {
        loop {
            let closed = self.wait_for_work();
            let many_write = self.contention.is_present();
            if let Some(connection) = &*self.connection() {
                self.write(connection, true);
            }
            self.contention.notify_free();
            // The log of a replaced file would be written into its replacement.
            let shortens = self.log.is_long(many_write) && self.check_file().is_ok();
            if shortens {
                self.log.write_back(many_write);
            }
            let mut connection = self.connection();
            if let Some(connection) = &*connection {
                if closed {
                    self.write(connection, true);
                }
                if shortens {
                    self.log.shorten(connection, many_write);
                }
                if closed && let Some(file) = self.file.get() {
                    file.before_close(connection);
                }
            }
            if closed {
                *connection = None;
            }
            drop(connection);
            self.contention.notify_free();
            if closed {
                return;
            }
        }
    }

    /// Waits for work. Returns true if the thread should end. Under contention, the thread also checks periodically,
    /// because the task that should write for others may not be scheduled.
    fn wait_for_work(&self) -> bool {
        let mut queue = self.queue();
        while !queue.wanted && !queue.closed {
            if self.contention.is_present() || queue.len() > 0 {
                let before = queue.taken;
                let waited = self.awake.wait_timeout(queue, MONITOR_INTERVAL).unwrap_or_else(PoisonError::into_inner);
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

    /// Executes the queued short jobs. Returns false if another caller uses the connection; that one signals when it is
    /// available.
    pub(super) fn write_now(&self) -> bool {
        let Some(connection) = self.try_connection() else { return false };
        match &*connection {
            Some(open) => self.write(open, false),
            None => self.fail_all(),
        }
        drop(connection);
        if self.log.is_long(self.contention.is_present()) {
            self.wake();
        }
        self.contention.notify_free();
        true
    }

    /// Executes the queue; a caller executes only short jobs.
    fn write(&self, connection: &Connection, is_thread: bool) {
        let patience = if is_thread { self.config.busy_timeout } else { Duration::ZERO };
        // It only stores the timeout, so it does not fail in practice.
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
                self.fail_first(self.saver_error(error));
                continue;
            }
            if !self.transaction(connection, is_thread) && !is_thread {
                // No other caller executes the rest.
                self.wake();
            }
            if !is_thread {
                return;
            }
        }
    }

    /// Fails the queued jobs, because the file is closed.
    fn fail_all(&self) {
        while !self.queue().jobs.is_empty() {
            self.fail_first(abandoned(&self.place));
        }
    }

    /// Fails the first job, because no transaction could be started.
    fn fail_first(&self, error: SaverError) {
        let job = self.queue().take_first();
        if let Some(job) = job {
            let ran = (job.run)(Err(error));
            (ran.reply)(Ok(()));
        }
    }

    /// Executes queued jobs in the current transaction and ends it. Returns true if the queue is empty afterwards.
    fn transaction(&self, connection: &Connection, is_thread: bool) -> bool {
        let (mut replies, mut ended) = (Vec::new(), Ok(()));
        let (mut calls, mut is_all) = (0, false);
        while let Some(job) = self.next_job(replies.len(), is_thread, &mut is_all) {
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
            ended = self.commit(connection);
        }
        if !connection.is_autocommit() {
            // If this fails, the next `begin` reports it.
            let _ = execute(connection, "rollback");
        }
        if ended.is_err()
            && let Some(file) = self.file.get()
        {
            file.save_commits(connection);
        }
        if self.contention.record(calls) {
            self.monitor_callers();
        }
        for reply in replies {
            reply(ended.clone());
        }
        is_all
    }

    /// Executes a job in the transaction. A failed job is rolled back, its caller receives the error, and there is no
    /// reply. Returns an error if SQLite has rolled back the whole transaction. The first job needs no savepoint,
    /// because no other job must be preserved.
    fn attempt(&self, job: WriteJob, connection: &Connection, is_first: bool) -> Result<Option<Reply>, SaverError> {
        let savepoint = |sql: &str| {
            let done = if is_first { Ok(()) } else { execute(connection, sql) };
            done.map_err(|error| self.saver_error(error))
        };
        let begun = savepoint("savepoint job");
        // If it panics, the reply is dropped, which notifies the caller.
        let ran = job.execute(begun.map(|()| connection));
        let (failed, reply) = match ran {
            Some(Executed { failed, reply }) => (failed, Some(reply)),
            None => (Some(abandoned(&self.place)), None),
        };
        let Some(error) = failed else { return savepoint("release job").map(|()| reply) };
        let undone = if connection.is_autocommit() {
            // SQLite has rolled back everything, for example because the disk is full.
            Err(error)
        } else {
            savepoint("rollback to job").and_then(|()| savepoint("release job"))
        };
        if let Some(reply) = reply {
            reply(Ok(()));
        }
        undone.map(|()| None)
    }

    fn commit(&self, connection: &Connection) -> Result<(), SaverError> {
        self.check_file()?;
        execute(connection, "commit").map_err(|error| self.saver_error(error))
    }

    /// Fails if the file or its log was deleted, moved or replaced.
    pub(super) fn check_file(&self) -> Result<(), SaverError> {
        self.file.get().map_or(Ok(()), |file| file.check(&self.place))
    }

    fn saver_error(&self, error: rusqlite::Error) -> SaverError {
        Fault::from(error).into_saver_error(&self.place)
    }

    /// Takes the next job that may share a transaction with `others` jobs, and records whether the queue is then empty.
    fn next_job(&self, others: usize, is_thread: bool, is_all: &mut bool) -> Option<WriteJob> {
        let most = if is_thread { MAX_JOBS } else { MAX_JOBS_FOR_OTHERS };
        let mut queue = self.queue();
        *is_all = queue.len() == 0;
        let fits = match queue.jobs.front()?.work {
            JobClass::Short | JobClass::Last => others < most,
            JobClass::Long => others < most && is_thread,
            JobClass::Alone => others == 0 && is_thread,
        };
        if !fits {
            return None;
        }
        *is_all = queue.len() == 1;
        queue.take_first()
    }
}

pub(super) fn abandoned(place: &str) -> SaverError {
    SaverError::Unusable {
        place: place.to_owned(),
        reason: "the call was abandoned, because the file was closed or a call panicked".to_owned(),
    }
}

fn begin(connection: &Connection) -> Result<(), rusqlite::Error> {
    if !connection.is_autocommit() {
        // A panic interrupted a transaction.
        execute(connection, "rollback")?;
    }
    execute(connection, "begin immediate")
}

fn execute(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
