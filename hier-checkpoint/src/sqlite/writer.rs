//! The thread that writes. What is waiting when it starts a transaction goes into it: one wait for the disk for many calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use hier_core::checkpoint::SaverError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;

/// How many calls share a transaction at most.
const MOST: usize = 1_000;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Sender<Job>,
    thread: JoinHandle<()>,
    place: String,
}

/// Something to be done in a transaction.
struct Job {
    /// Whether it must not share its transaction: it may fail after it has changed something.
    alone: bool,
    run: Box<Run>,
}

/// Is given the error if there is no transaction.
type Run = dyn FnOnce(Result<&Connection, SaverError>) -> Ran + Send;

/// What was done and not yet committed.
struct Ran {
    /// Whether the transaction can be committed.
    good: bool,
    /// Tells the caller, once it is known whether it was.
    reply: Box<dyn FnOnce(Result<(), SaverError>) + Send>,
}

impl Writer {
    /// Starts the thread with the connection that `open` makes there.
    pub(super) async fn start(
        place: String,
        open: impl FnOnce() -> Result<Connection, Fault> + Send + 'static,
    ) -> Result<Self, SaverError> {
        let (queue, jobs) = channel();
        let (opened, is_open) = oneshot::channel();
        let own_place = place.clone();
        let run = move || match open() {
            Ok(connection) => {
                // Nobody waits for it if the opening was cancelled; then there are no jobs either.
                let _ = opened.send(Ok(()));
                work(&connection, &jobs, &own_place);
            }
            Err(fault) => drop(opened.send(Err(fault.tell(&own_place)))),
        };
        let thread = std::thread::Builder::new().name("hier-sqlite".to_owned()).spawn(run);
        let thread = thread.map_err(|error| SaverError::database("the thread that writes cannot start", error))?;
        is_open.await.map_err(|_| stopped(&place))??;
        Ok(Self { queue, thread, place })
    }

    /// Queues something that fails, if it does, before it changes anything; done in the order of these calls.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SaverError>> + Send + 'static {
        self.queue(false, work)
    }

    /// Queues something that has a transaction of its own.
    pub(super) fn submit_alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SaverError>> + Send + 'static {
        self.queue(true, work)
    }

    fn queue<T: Send + 'static>(
        &self,
        alone: bool,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> impl Future<Output = Result<T, SaverError>> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        let place = self.place.clone();
        let run = move |connection: Result<&Connection, SaverError>| {
            let result = connection.map_err(Fault::Saver).and_then(work);
            let good = match &result {
                Ok(_) => true,
                Err(Fault::Saver(_)) => !alone,
                Err(Fault::Sql(_)) => false,
            };
            let result = result.map_err(|fault| fault.tell(&place));
            // A call that was dropped waits for no answer.
            let reply = move |committed: Result<(), SaverError>| {
                let _ = answer.send(result.and_then(|value| committed.map(|()| value)));
            };
            Ran { good, reply: Box::new(reply) }
        };
        let sent = self.queue.send(Job { alone, run: Box::new(run) });
        let place = self.place.clone();
        async move {
            sent.map_err(|_| stopped(&place))?;
            answered.await.map_err(|_| stopped(&place))?
        }
    }

    /// Waits until all that was queued is done and the file is closed.
    pub(super) fn close(self) {
        drop(self.queue);
        // It has ended either way.
        let _ = self.thread.join();
    }
}

fn stopped(place: &str) -> SaverError {
    SaverError::Unusable { place: place.to_owned(), reason: "the thread that writes it has stopped".to_owned() }
}

fn work(connection: &Connection, jobs: &Receiver<Job>, place: &str) {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| jobs.recv().ok()) {
        next = transaction(connection, job, jobs, place);
    }
}

/// Does a job, and all that are waiting, in one transaction. Returns the one that wants its own.
fn transaction(connection: &Connection, first: Job, jobs: &Receiver<Job>, place: &str) -> Option<Job> {
    if let Err(error) = execute(connection, "begin immediate") {
        let ran = (first.run)(Err(Fault::from(error).tell(place)));
        (ran.reply)(Ok(()));
        return None;
    }
    let (mut replies, mut good, mut job) = (Vec::new(), true, first);
    let next = loop {
        let alone = job.alone;
        let ran = (job.run)(Ok(connection));
        replies.push(ran.reply);
        good &= ran.good;
        if alone || !good || replies.len() >= MOST {
            break None;
        }
        match jobs.try_recv() {
            Ok(next) if next.alone => break Some(next),
            Ok(next) => job = next,
            Err(_) => break None,
        }
    };
    let ended = if good { execute(connection, "commit") } else { Err(rolled_back()) };
    if ended.is_err() && !connection.is_autocommit() {
        // If even this fails, the next `begin` says so.
        let _ = execute(connection, "rollback");
    }
    let ended = ended.map_err(|error| Fault::from(error).tell(place));
    for reply in replies {
        reply(ended.clone());
    }
    next
}

/// What those are told whose transaction somebody else has spoilt.
fn rolled_back() -> rusqlite::Error {
    let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    rusqlite::Error::SqliteFailure(error, Some("another call in the same transaction failed: try again".to_owned()))
}

fn execute(connection: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
