//! Invariants of queued jobs in every interleaving.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hier_core::checkpoint::SaverError;
use rusqlite::Connection;
use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use tokio::sync::oneshot;

use super::fault::Fault;
use super::log::WriteAheadLog;
use super::sync::JoinHandle;
use super::writer::{JobClass, SqliteWriter, WriterConfig};

const SCHEDULES: usize = 100;
/// SQLite needs more than shuttle gives.
const STACK: usize = 256 << 10;

fn explore(run: fn()) {
    explore_at_random(run);
    Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(run);
}

/// Allows threads to run one after the other, which the other scheduler refuses.
fn explore_at_random(run: fn()) {
    Runner::new(RandomScheduler::new(SCHEDULES), config()).run(run);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK;
    config
}

/// A lock at which the scheduler does not switch.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Fails,
    Panics,
}

/// The patience of a caller.
#[derive(Clone, Copy, Debug)]
enum Waits {
    ForTheAnswer,
    /// For this many polls.
    Polls(usize),
}

/// One of these.
fn any<T: Copy>(of: &[T]) -> T {
    of[thread_rng().gen_range(0..of.len())]
}

fn any_work() -> JobClass {
    any(&[JobClass::Short, JobClass::Short, JobClass::Short, JobClass::Last, JobClass::Long, JobClass::Alone])
}

fn any_fate() -> Fate {
    any(&[Fate::Done, Fate::Done, Fate::Done, Fate::Fails, Fate::Panics])
}

fn any_waits() -> Waits {
    any(&[Waits::ForTheAnswer, Waits::ForTheAnswer, Waits::Polls(0), Waits::Polls(1), Waits::Polls(2)])
}

fn open() -> Result<Connection, Fault> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("create table done (number integer not null)")?;
    Ok(connection)
}

async fn start(waits_for_disk: bool) -> SqliteWriter {
    let manner = WriterConfig { busy_timeout: Duration::ZERO, waits_for_disk };
    SqliteWriter::start("memory".to_owned(), manner, WriteAheadLog, open).await.expect("it opens")
}

/// The jobs that were begun, in that order, and what became of all.
#[derive(Default)]
struct Book {
    begun: Mutex<Vec<u32>>,
    fates: Mutex<BTreeMap<u32, Fate>>,
}

/// The result of a caller.
type Answer = Result<u32, SaverError>;

impl Book {
    /// A job that records its start, and then ends like this. The second signal is sent when it has ended or was dropped.
    fn job(
        self: &Arc<Self>,
        number: u32,
        fate: Fate,
    ) -> (impl FnOnce(&Connection) -> Result<u32, Fault> + Send + use<>, oneshot::Receiver<()>) {
        let (ended, is_ended) = oneshot::channel();
        let this = self.clone();
        lock(&this.fates).insert(number, fate);
        let run = move |connection: &Connection| {
            let _ended = ended;
            lock(&this.begun).push(number);
            connection.prepare_cached("insert into done values (?1)")?.execute([number])?;
            shuttle::thread::yield_now();
            match fate {
                Fate::Done => Ok(number),
                Fate::Fails => Err(refused(number).into()),
                // Unlike `panic!` it does not call shuttle's hook, which would report a failure.
                Fate::Panics => resume_unwind(Box::new("the job panics")),
            }
        };
        (run, is_ended)
    }

    /// The answer is that of the job.
    fn check(&self, number: u32, answer: &Answer) {
        let fate = lock(&self.fates)[&number];
        let fits = match (fate, answer) {
            (Fate::Done, Ok(value)) => *value == number,
            (Fate::Fails, Err(SaverError::Unusable { reason, .. })) => *reason == text_of(number),
            (Fate::Panics, Err(SaverError::Unusable { reason, .. })) => reason.contains("a call panicked"),
            _ => false,
        };
        assert!(fits, "job {number}, {fate:?}: {answer:?}");
    }

    /// Jobs were begun in this order, each once.
    fn check_order(&self, queued: &[u32]) {
        assert_eq!(*lock(&self.begun), queued, "begun and queued");
    }

    /// Checks that the stored jobs are those that were executed.
    fn check_stored(&self, stored: &[u32], queued: &[u32]) {
        let fates = lock(&self.fates);
        let done: Vec<u32> = queued.iter().copied().filter(|number| fates[number] == Fate::Done).collect();
        assert_eq!(stored, done, "stored and done");
    }
}

fn text_of(number: u32) -> String {
    format!("job {number} refuses")
}

fn refused(number: u32) -> SaverError {
    SaverError::Unusable { place: "job".to_owned(), reason: text_of(number) }
}

fn stored(connection: &Connection) -> Result<Vec<u32>, Fault> {
    let mut rows = connection.prepare("select number from done order by rowid")?;
    let numbers = rows.query_map([], |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Checks that no writer is active during a read.
fn no_other_writer(connection: &Connection) {
    let before = stored(connection).expect("it can be read");
    shuttle::thread::yield_now();
    assert_eq!(stored(connection).expect("it can be read again"), before);
}

/// Waits so long for a call, and drops it then.
async fn wait<T>(call: impl Future<Output = T>, waits: Waits) -> Option<T> {
    let mut left = match waits {
        Waits::ForTheAnswer => return Some(call.await),
        Waits::Polls(polls) => polls,
    };
    let mut call = pin!(call);
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        context.waker().wake_by_ref();
        call.as_mut().poll(context).map(Some)
    })
    .await
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("it does not fail");
    }
}

/// Callers that queue, wait or give up concurrently. Every job is executed, even if no caller waits or closes.
fn callers() {
    const CALLERS: u32 = 3;
    const EACH: u32 = 3;
    let writer = Arc::new(block_on(start(thread_rng().gen_ratio(1, 4))));
    let (book, queued) = (Arc::<Book>::default(), Arc::new(shuttle::sync::Mutex::new(Vec::new())));
    let caller = |caller: u32| {
        let (writer, book, queued) = (writer.clone(), book.clone(), queued.clone());
        move || {
            for number in caller * EACH..(caller + 1) * EACH {
                let (run, ended) = book.job(number, any_fate());
                let call = {
                    let mut queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
                    queued.push(number);
                    writer.submit(any_work(), run)
                };
                if let Some(answer) = block_on(wait(call, any_waits())) {
                    book.check(number, &answer);
                }
                if thread_rng().gen_ratio(1, 3) {
                    writer.read_now(no_other_writer);
                }
                if thread_rng().gen_ratio(1, 2) {
                    // True if it was executed or panicked.
                    let _ = block_on(ended);
                }
            }
        }
    };
    let threads: Vec<_> = (0..CALLERS).map(|number| shuttle::thread::spawn(caller(number))).collect();
    join(threads);
    let stored = block_on(writer.submit(JobClass::Alone, stored)).expect("it can be read");
    let queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
    book.check_order(&queued);
    book.check_stored(&stored, &queued);
}

#[test]
fn every_job_is_executed_once_in_order() {
    explore(callers);
}

/// Jobs that are queued during a read are executed, even if nothing follows.
#[test]
fn readers_do_not_block_writers() {
    explore(|| {
        let writer = Arc::new(block_on(start(false)));
        let book = Arc::<Book>::default();
        let (run, _) = book.job(0, Fate::Done);
        let call = writer.submit(JobClass::Short, run);
        let caller = shuttle::thread::spawn(move || book.check(0, &block_on(call)));
        let own = writer.clone();
        let reader = shuttle::thread::spawn(move || {
            let _ = own.read_now(no_other_writer);
        });
        join(vec![caller, reader]);
        // Closing it would execute queued jobs.
        drop(writer);
    });
}

/// The jobs are executed although no caller waits and nothing follows.
#[test]
fn jobs_of_dropped_callers_are_executed() {
    explore(|| {
        let writer = block_on(start(thread_rng().gen_ratio(1, 4)));
        let book = Arc::<Book>::default();
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (run, ended) = book.job(number, any_fate());
                let call = writer.submit(any_work(), run);
                shuttle::thread::spawn(move || {
                    drop(block_on(wait(call, Waits::Polls(any(&[0, 1])))));
                    let _ = block_on(ended);
                })
            })
            .collect();
        join(threads);
        book.check_order(&[0, 1, 2]);
        drop(writer);
    });
}

/// The writer is closed, or dropped, while callers wait or give up.
#[test]
fn queued_jobs_are_executed_before_the_writer_closes() {
    const JOBS: u32 = 5;
    explore(|| {
        let writer = block_on(start(thread_rng().gen_ratio(1, 4)));
        let (book, head) = (Arc::<Book>::default(), writer.front());
        let threads: Vec<_> = (0..JOBS)
            .map(|number| {
                let (run, ended) = book.job(number, any_fate());
                let call = writer.submit(any_work(), run);
                let book = book.clone();
                shuttle::thread::spawn(move || {
                    if let Some(answer) = block_on(wait(call, any_waits())) {
                        book.check(number, &answer);
                    }
                    let _ = block_on(ended);
                })
            })
            .collect();
        // Later jobs may be too late.
        let late = shuttle::thread::spawn(move || head.submit(|_| Ok(())));
        let order: Vec<u32> = (0..JOBS).collect();
        let is_checked_early = thread_rng().gen_ratio(1, 2);
        drop(writer);
        if is_checked_early {
            book.check_order(&order);
        }
        join(threads);
        late.join().expect("the head");
        book.check_order(&order);
    });
}

/// The holder of the connection has taken at most one job.
#[test]
fn at_most_one_waiting_job_precedes_the_front() {
    const JOBS: u32 = 6;
    const HEAD: u32 = 100;
    explore(|| {
        let writer = block_on(start(false));
        let book = Arc::<Book>::default();
        let threads: Vec<_> = (0..JOBS)
            .map(|number| {
                let (run, _) = book.job(number, Fate::Done);
                let call = writer.submit(any_work(), run);
                shuttle::thread::spawn(move || drop(block_on(call)))
            })
            .collect();
        let (run, ended) = book.job(HEAD, Fate::Done);
        writer.front().submit(move |connection| run(connection).map(drop));
        let before = lock(&book.begun).len();
        block_on(ended).expect_err("it only says that it has ended");
        join(threads);
        let begun = lock(&book.begun);
        let place = begun.iter().position(|number| *number == HEAD).expect("it is done");
        assert!(place <= before + 1, "{begun:?}, of which {before} were begun before");
        assert!(begun.iter().filter(|number| **number != HEAD).is_sorted(), "{begun:?}");
    });
}

/// A thread that is never woken again would be a deadlock.
#[test]
fn writer_thread_ends_if_opening_fails_or_is_dropped() {
    explore_at_random(|| {
        let fails = thread_rng().gen_ratio(1, 2);
        let opened = move || {
            shuttle::thread::yield_now();
            if fails { Err(refused(0).into()) } else { open() }
        };
        let manner = WriterConfig { busy_timeout: Duration::ZERO, waits_for_disk: false };
        let started = SqliteWriter::start("memory".to_owned(), manner, WriteAheadLog, opened);
        match block_on(wait(started, any(&[Waits::ForTheAnswer, Waits::Polls(1), Waits::Polls(2)]))) {
            Some(Ok(_)) => assert!(!fails),
            Some(Err(error)) => assert!(fails && error.to_string().contains(&text_of(0)), "{error}"),
            None => {}
        }
    });
}

/// Another process writes, and ends before the thread gives up, or after it.
#[test]
fn wait_for_another_process_is_bounded() {
    explore(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let other = Connection::open(&path).expect("it can be opened");
        let sql = "pragma journal_mode = memory; pragma synchronous = off; create table done (number integer not null)";
        other.execute_batch(sql).expect("a table");
        other.busy_timeout(Duration::ZERO).expect("it does not wait");
        let manner = WriterConfig { busy_timeout: Duration::ZERO, waits_for_disk: false };
        let open = move || Ok(Connection::open(path)?);
        let writer = block_on(SqliteWriter::start("file".to_owned(), manner, WriteAheadLog, open)).expect("it opens");
        let other = shuttle::thread::spawn(move || {
            // It may find that it is ours.
            let Ok(()) = other.execute_batch("begin immediate") else { return };
            shuttle::thread::yield_now();
            other.execute_batch("commit").expect("it ends");
        });
        let book = Arc::<Book>::default();
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (run, ended) = book.job(number, Fate::Done);
                let call = writer.submit(any_work(), run);
                let book = book.clone();
                shuttle::thread::spawn(move || {
                    match block_on(wait(call, any_waits())) {
                        Some(Err(error)) => assert!(error.to_string().contains("by another process"), "{error}"),
                        Some(answer) => book.check(number, &answer),
                        None => {}
                    }
                    let _ = block_on(ended);
                })
            })
            .collect();
        join(threads);
        other.join().expect("the other process");
    });
}
