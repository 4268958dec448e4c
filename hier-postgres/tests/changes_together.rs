//! Changes of different threads that are stored by one statement on Postgres: each has its own condition and its own answer.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, Lease, SaverError, WhenRunning, WriteRecord};
use hier_core::runs::{
    AddedRun, Claimed, EventQuery, LogEvent, NewEvent, NewRun, Request, RunClaim, RunCommit, RunEnd, RunStatus,
    RunStore, RunsError, ThreadPatch,
};
use hier_postgres::Postgres;
use kit::proxied::Proxied;
use kit::server::{connected, server};
use serde_json::json;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A store with claimed runs of separate threads.
struct Desk {
    db: Proxied,
    claimed: Vec<Claimed>,
}

const THREADS: usize = 8;
const ROUNDS: usize = 6;

impl Desk {
    async fn open(schema: &'static str) -> Self {
        let mut desk = Self { db: Proxied::open(schema).await, claimed: Vec::new() };
        for number in 0..THREADS {
            let new = NewRun::new(format!("t{number}"), "desk", Request::default()).create_thread();
            let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
            let AddedRun { claimed, .. } = desk.db.store.driver().create_claimed(new, claim).await.expect("a run");
            desk.claimed.push(claimed.expect("nothing is in its way"));
        }
        // Notifications to others have been sent by then.
        tokio::time::sleep(Duration::from_millis(100)).await;
        desk
    }

    fn record(&self, number: usize, settlement: RunCommit) -> JoinHandle<Result<u64, RunsError>> {
        let (store, lease): (_, Lease) = (self.db.store.clone(), self.claimed[number].lease.clone());
        tokio::spawn(async move { store.driver().commit_run(&lease, settlement).await })
    }

    fn tells(&self, number: usize) -> RunCommit {
        RunCommit::events(vec![NewEvent::new(self.claimed[number].run.id, LogEvent::Values(json!({ "n": number })))])
    }

    /// Changes of all threads, all but the first of which go together once the table is free again, for which this has locked it.
    async fn all_wait(&self) -> Vec<JoinHandle<Result<u64, RunsError>>> {
        self.db.run("begin; lock table {s}.run_threads in access exclusive mode").await;
        let mut recording = vec![self.record(0, self.tells(0))];
        self.db.until_blocked(1).await;
        recording.extend((1..THREADS).map(|number| self.record(number, self.tells(number))));
        tokio::time::sleep(Duration::from_millis(200)).await;
        recording
    }

    async fn modes(&self, number: usize) -> Vec<String> {
        let page = self.db.store.driver().events(EventQuery::after(&*format!("t{number}"), 0)).await.expect("events");
        page.events.iter().map(|row| row.event.mode().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commit_with_a_lost_lease_fails_alone() {
    let desk = Desk::open("together_lost").await;
    let other = Postgres::options().schema(desk.db.schema).connect(&desk.db.url).await.expect("the server");
    let claim = Claim { holder: "another".into(), when_running: WhenRunning::TakeOver, ..Claim::default() };
    other.acquire("t5", claim).await.expect("taken over");
    let recording = desk.all_wait().await;
    assert_eq!(desk.db.blocked().await, 1, "the others wait for this one");
    desk.db.road.round_trips();
    desk.db.run("commit").await;
    for (number, recording) in recording.into_iter().enumerate() {
        let recorded = recording.await.expect("it ends");
        if number == 5 {
            let refused = matches!(recorded, Err(RunsError::Saver(SaverError::Superseded { .. })));
            assert!(refused, "{recorded:?}");
        } else {
            assert_eq!(recorded.expect("stored"), 2);
        }
    }
    // One in flight, the rest, and the notifications.
    let trips = desk.db.road.round_trips();
    assert!(trips < THREADS, "{trips} round trips");
    for number in 0..THREADS {
        let wanted: &[&str] = if number == 5 { &["start"] } else { &["start", "values"] };
        assert_eq!(desk.modes(number).await, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commit_of_a_locked_thread_delays_no_other() {
    let desk = Desk::open("together_busy").await;
    let busy = connected(&desk.db.url).await;
    busy.batch_execute("begin; select 1 from together_busy.run_threads where name = 't6' for update")
        .await
        .expect("it");
    let mut recording = Vec::new();
    for number in 0..THREADS {
        recording.push(desk.record(number, desk.tells(number)));
    }
    let waits = recording.remove(6);
    for recording in recording {
        assert_eq!(recording.await.expect("it ends").expect("stored"), 2);
    }
    assert!(!waits.is_finished(), "its thread is held by another process");
    busy.batch_execute("commit").await.expect("the server");
    assert_eq!(waits.await.expect("it ends").expect("stored"), 2);
}

/// The connection is closed while the server works. No caller gets a success for an unstored change.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commits_are_sent_again_after_a_lost_connection() {
    let desk = Desk::open("together_dies").await;
    let recording = desk.all_wait().await;
    let kills = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%\"together_dies\".change_threads%'";
    for _ in 0..3 {
        desk.db.watch.query_one(kills, &[]).await.expect("the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(recording.iter().all(|recording| !recording.is_finished()), "no request gets an answer");
    desk.db.run("commit").await;
    for recording in recording {
        assert_eq!(recording.await.expect("it ends").expect("stored"), 2);
    }
    for number in 0..THREADS {
        assert_eq!(desk.modes(number).await, ["start", "values"]);
    }
}

/// The server has stored a change, and its answer does not arrive. Each change is stored once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commits_with_a_lost_answer_are_stored_once() {
    let desk = Desk::open("together_answers").await;
    for round in 0..ROUNDS {
        let recording = desk.all_wait().await;
        desk.db.road.hold_answers();
        desk.db.run("commit").await;
        desk.db.road.answer_is_held().await;
        // The other one is lost in its place, or with it, or neither.
        tokio::time::sleep(Duration::from_millis(20 * (u64::try_from(round % 2).expect("few")))).await;
        desk.db.road.lose_the_held_answer();
        desk.db.road.lose_one_answer();
        for recording in recording {
            recording.await.expect("it ends").expect("stored");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for number in 0..THREADS {
        assert_eq!(desk.modes(number).await.len(), 1 + ROUNDS, "of thread {number}");
    }
}

/// The server has stored it, its answer does not arrive, and before it is sent again another process changes the thread, so that the thread
/// does not say any more that it was stored.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn lost_answer_is_stored_once_despite_later_changes() {
    let desk = Desk::open("together_since").await;
    let other = Postgres::options().schema(desk.db.schema).connect(&desk.db.url).await.expect("the server");
    for number in 0..THREADS {
        desk.db.road.hold_answers();
        let recording = desk.record(number, desk.tells(number));
        desk.db.road.answer_is_held().await;
        let patch = ThreadPatch::metadata([("by".to_owned(), json!("another"))].into_iter().collect());
        other.driver().update_thread(&format!("t{number}"), patch).await.expect("changed");
        desk.db.road.lose_the_held_answer();
        recording.await.expect("it ends").expect("stored");
        assert_eq!(desk.modes(number).await, ["start", "values"]);
        // Notifications to others have been sent by then.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The caller of a change is dropped. It is stored or not, and later changes are stored.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn dropped_pending_request_blocks_no_other() {
    let desk = Desk::open("together_dropped").await;
    let mut recording = desk.all_wait().await;
    for dropped in [0, 4] {
        recording[dropped].abort();
    }
    let end = |number: usize| RunCommit::default().end(RunEnd::new(desk.claimed[number].run.id, RunStatus::Success));
    let mut ending: Vec<_> = [0, 4].map(|number| desk.record(number, end(number))).into();
    tokio::time::sleep(Duration::from_millis(50)).await;
    desk.db.run("commit").await;
    for recording in recording.drain(..).chain(ending.drain(..)) {
        match recording.await {
            Ok(recorded) => drop(recorded.expect("stored")),
            Err(error) => assert!(error.is_cancelled()),
        }
    }
    for number in 0..THREADS {
        let modes = desk.modes(number).await;
        let is_dropped = [0, 4].contains(&number);
        assert_eq!(modes.last().map(String::as_str), Some(if is_dropped { "end" } else { "values" }), "{modes:?}");
    }
    let ended = desk.db.store.driver().run(desk.claimed[4].run.id).await.expect("the server").expect("the run");
    assert_eq!(ended.status, RunStatus::Success);
}

/// Two processes change the same threads at once in different orders. Nothing is lost, and no process waits forever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn processes_that_change_the_same_threads_do_not_wait_for_each_other() {
    let url = server();
    let open = || Postgres::options().schema("together_both").connect(&url);
    let (one, two) = (open().await.expect("the server"), open().await.expect("the server"));
    one.migrate().await.expect("tables");
    let mut adding = tokio::task::JoinSet::new();
    for number in 0..200 {
        for (store, thread) in [(one.clone(), number % 16), (two.clone(), 15 - number % 16)] {
            adding.spawn(async move {
                let mut new = NewRun::new(format!("t{thread}"), "desk", Request::default()).create_thread();
                new.id = Some(Uuid::new_v4());
                let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
                store.driver().create_claimed(new, claim).await.expect("a run").claimed.is_some()
            });
        }
    }
    let added =
        tokio::time::timeout(Duration::from_mins(1), adding.join_all()).await.expect("no request waits for ever");
    assert_eq!(added.iter().filter(|claimed| **claimed).count(), 16, "the first of each thread is claimed");
    for thread in 0..16 {
        let mut query = hier_core::runs::RunQuery::thread(format!("t{thread}"));
        query.limit = usize::MAX;
        assert_eq!(one.driver().runs(query).await.expect("runs").len(), added.len() / 16);
    }
}

/// If its parent exists, so do the values that a checkpoint builds on. Otherwise each value is checked.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commit_on_missing_values_is_refused() {
    let desk = Desk::open("together_bases").await;
    for (number, as_commit) in [(0, false), (1, true)] {
        let lease = desk.claimed[number].lease.clone();
        let store = async |record: WriteRecord| {
            if as_commit {
                return desk.db.store.commit(&lease, vec![record].into()).await.map(drop);
            }
            match desk.db.store.driver().commit_run(&lease, RunCommit::records(vec![record])).await {
                Err(RunsError::Saver(error)) => Err(error),
                other => other.map(drop).map_err(|error| panic!("{error}")),
            }
        };
        let (first, record) = kit::next(None, &[(0, false, vec![1]), (1, false, vec![1])], 2);
        store(record).await.expect("stored");
        desk.db.run("delete from {s}.checkpoints").await;
        let (second, record) = kit::next(Some(&first), &[(1, false, vec![2])], 2);
        store(record).await.expect("its parent is gone, and the value is there");
        let (third, record) = kit::next(Some(&second), &[(1, false, vec![3])], 2);
        desk.db.run("delete from {s}.pieces where channel = 'channel 1'").await;
        store(record).await.expect("its parent is there, and so is what it builds on");
        desk.db.run("delete from {s}.checkpoints; delete from {s}.pieces").await;
        let (_, record) = kit::next(Some(&third), &[(1, false, vec![4])], 2);
        let refused = store(record).await.expect_err("it builds on what is gone");
        assert!(matches!(&refused, SaverError::Gone { channel, .. } if channel == "channel 0"), "{refused:?}");
        assert_eq!(desk.db.store.get(&format!("t{number}"), "", None).await.expect("the server"), None);
    }
}
