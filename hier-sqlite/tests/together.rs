//! Calls that share a transaction of SQLite: what befalls one befalls no other.

mod kit;

use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use hier_core::checkpoint::{
    Checkpointer, Claim, Lease, LeaseState, SaverError, ThreadAdmin, WhenRunning, WriteRecord,
};
use hier_core::runs::{NewRun, NewThread, Request, RunClaim, RunCommit, RunEnd, RunStatus, RunStore, RunsError};
use hier_sqlite::Sqlite;
use rusqlite::Connection;
use tokio::time::timeout;

fn record(value: &[u8]) -> Vec<WriteRecord> {
    vec![kit::next(None, &[(0, false, value.to_vec())], 1).1]
}

/// Another process writes to the file, so that calls queue up.
fn hold(path: &Path) -> Connection {
    let file = Connection::open(path).expect("the file");
    file.execute_batch("begin immediate").expect("a transaction");
    file
}

async fn claimed(saver: &Sqlite, threads: &[&str]) -> Vec<Lease> {
    let mut leases = Vec::new();
    for thread in threads {
        leases.push(saver.acquire(thread, Claim::default()).await.expect("the thread"));
    }
    leases
}

/// The database refuses some values, as it does those of a billion bytes, at each place in the queue.
#[tokio::test]
async fn refused_commit_does_not_affect_others() {
    let folder = tempfile::tempdir().expect("a folder");
    for bad in 0..4 {
        let path = folder.path().join(format!("{bad}.db"));
        let saver = Sqlite::open(&path).await.expect("a new file");
        let trigger = "create trigger refuse before insert on writes when new.value = x'6e6f00'
            begin select raise(fail, 'refused'); end";
        Connection::open(&path).and_then(|file| file.execute_batch(trigger)).expect("a trigger");
        let leases = claimed(&saver, &["0", "1", "2", "3"]).await;
        let other = hold(&path);
        let mut commits = Vec::new();
        for (number, lease) in leases.into_iter().enumerate() {
            let saver = saver.clone();
            commits.push(tokio::spawn(async move {
                let (checkpoint, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
                let value: &[u8] = if number == bad { b"no" } else { b"yes" };
                saver.commit(&lease, vec![record, kit::write(checkpoint.id, 0, value)].into()).await
            }));
        }
        // All of them wait in the queue by then.
        tokio::time::sleep(Duration::from_millis(50)).await;
        other.execute_batch("commit").expect("an end");
        for (number, commit) in commits.into_iter().enumerate() {
            let result = commit.await.expect("no panic");
            let stored = saver.get(&number.to_string(), "", None).await.expect("a read");
            if number == bad {
                let error = result.expect_err("a refusal").to_string();
                assert!(error.contains("refused"), "{error}");
                assert_eq!(stored, None, "nothing of what was refused is there");
            } else {
                result.expect("a commit of another thread");
                assert_eq!(stored.expect("a checkpoint").writes.len(), 1);
            }
        }
    }
}

/// Otherwise, the commands of `hier` could not read a database while its program deletes a long thread.
#[tokio::test]
async fn file_is_opened_and_read_while_another_process_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let lease = claimed(&saver, &["t"]).await.pop().expect("the thread");
    saver.commit(&lease, record(b"value").into()).await.expect("a commit");
    let _other = hold(&path);
    let second = Sqlite::options().busy_timeout(Duration::ZERO).open(&path).await.expect("the file");
    assert_eq!(second.threads(None).await.expect("a list").len(), 1);
    assert!(second.get("t", "", None).await.expect("a read").is_some());
}

/// The number of transactions in the log of this file: each ends with a frame that has the size of the file.
fn transactions(path: &Path) -> usize {
    let log = std::fs::read(path.with_extension("db-wal")).expect("the log");
    let number = |at: usize| log.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four")));
    let frame = 24 + number(8) as usize;
    (32..log.len()).step_by(frame).filter(|at| number(at + 4) > 0 && number(at + 8) == number(16)).count()
}

/// Commits to each of these threads at once, each in a separate task.
fn commit_at_once(saver: &Sqlite, leases: &[Lease]) -> Vec<tokio::task::JoinHandle<Result<LeaseState, SaverError>>> {
    let begin = |lease: &Lease| {
        let (saver, lease) = (saver.clone(), lease.clone());
        tokio::spawn(async move { saver.commit(&lease, record(b"value").into()).await })
    };
    leases.iter().map(begin).collect()
}

/// Two commits meet, which marks the file as busy. Tasks of one thread never meet by themselves. After some
/// milliseconds without writes the mark is removed.
async fn meet(saver: &Sqlite, path: &Path, leases: &[Lease]) {
    let other = hold(path);
    let meeting = commit_at_once(saver, &leases[..2]);
    tokio::task::yield_now().await;
    other.execute_batch("commit").expect("an end");
    for commit in meeting {
        commit.await.expect("no panic").expect("a commit");
    }
    // The saver's own thread has finished then.
    saver.commit(&leases[0], record(b"value").into()).await.expect("a commit");
}

/// The first lets the others queue and writes for all.
#[tokio::test]
async fn concurrent_writers_share_transactions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let names: Vec<String> = (0..32).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let leases = claimed(&saver, &names).await;
    for _ in 0..20 {
        meet(&saver, &path, &leases).await;
        let before = transactions(&path);
        for commit in commit_at_once(&saver, &leases) {
            commit.await.expect("no panic").expect("a commit");
        }
        if transactions(&path) - before <= 2 {
            return;
        }
    }
    panic!("32 commits at once had a transaction each, twenty times");
}

/// The task that should write for the others is delayed.
#[tokio::test]
async fn starved_group_writer_does_not_block_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let leases = claimed(&saver, &["0", "1"]).await;
    for _ in 0..20 {
        meet(&saver, &path, &leases).await;
        let mut first = saver.commit(&leases[0], record(b"value").into());
        let begun = poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
        if begun.is_pending() {
            let behind = saver.commit(&leases[1], record(b"value").into());
            timeout(Duration::from_mins(1), behind).await.expect("it does not wait for it").expect("a commit");
            first.await.expect("a commit");
            return;
        }
    }
    panic!("no writer gave way in twenty attempts");
}

/// The call is dropped while it waits in the queue, and the next one for the thread waits behind it.
#[tokio::test]
async fn dropped_claim_holds_nothing() {
    let reject = || Claim { when_running: WhenRunning::Reject, ..Claim::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let other = hold(&path);
    let first = timeout(Duration::from_millis(20), saver.acquire("t", reject())).await;
    assert!(first.is_err(), "another writer is active");
    let own = saver.clone();
    let second = tokio::spawn(async move { own.acquire("t", reject()).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("commit").expect("an end");
    second.await.expect("no panic").expect("the free thread");
    let busy = saver.acquire("t", reject()).await.expect_err("it is held");
    assert!(matches!(busy, SaverError::Busy { .. }), "{busy:?}");
}

#[tokio::test]
async fn durations_can_be_unbounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let saver = Sqlite::options().busy_timeout(Duration::MAX).open(folder.path().join("desk.db")).await;
    let saver = saver.expect("a new file");
    let claim = Claim { lasts: Duration::MAX, time_to_live: Some(Duration::MAX), ..Claim::default() };
    let lease = saver.acquire("t", claim).await.expect("the thread");
    saver.commit(&lease, record(b"value").into()).await.expect("a commit");
    saver.renew(&lease).await.expect("the lease");
    assert_eq!(saver.sweep().await.expect("a sweep"), 0);
}

/// The clock was set back by an hour after a process claimed the thread and died.
#[tokio::test]
async fn lease_from_the_future_expires_normally() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let lasts = Duration::from_millis(300);
    let claim = |when_running| Claim { lasts, when_running, ..Claim::default() };
    let lease = saver.acquire("t", claim(WhenRunning::Reject)).await.expect("the thread");
    let later = "update threads set leased_until = leased_until + 3600000";
    Connection::open(&path).and_then(|file| file.execute_batch(later)).expect("a lease from the future");
    let busy = saver.acquire("t", claim(WhenRunning::Reject)).await.expect_err("its holder may live");
    assert!(matches!(busy, SaverError::Busy { .. }), "{busy:?}");
    saver.renew(&lease).await.expect("it lives");
    let wait = claim(WhenRunning::Wait(Duration::from_secs(30)));
    Connection::open(&path).and_then(|file| file.execute_batch(later)).expect("a lease from the future");
    saver.acquire("t", wait).await.expect("the thread, long before the hour is over");
}

/// On this runtime, a call that does its work at once delays all other tasks.
#[tokio::test]
async fn long_changes_run_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let saver = Sqlite::open(folder.path().join("desk.db")).await.expect("a new file");
    let store = saver.driver();
    let value = vec![7; 16 << 20];
    let new = NewRun::new("long", "desk", Request::default()).create_thread();
    let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
    let claimed = store.create_claimed(new, claim).await.expect("a run").claimed.expect("it starts");
    assert!(takes_a_while(store.commit_run(&claimed.lease, RunCommit::records(record(&value)))).await);
    let end = RunCommit::default().end(RunEnd::new(claimed.run.id, RunStatus::Success));
    store.commit_run(&claimed.lease, end).await.expect("an end");
    assert!(takes_a_while(store.clone_thread("long", NewThread::new("copy"))).await);
    assert!(takes_a_while(store.remove_thread("copy")).await);
}

/// Makes a call, and returns false if its first poll does all the work.
async fn takes_a_while<T: std::fmt::Debug>(call: impl Future<Output = Result<T, RunsError>>) -> bool {
    let mut call = std::pin::pin!(call);
    let begun = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    match begun {
        Poll::Ready(done) => done.map(|_| false).expect("the store"),
        Poll::Pending => call.await.map(|_| true).expect("the store"),
    }
}
