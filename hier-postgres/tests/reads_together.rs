//! Threads that are read by one statement on Postgres: each caller gets the same result as alone.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Checkpoint, Checkpointer, Claim, Lease, Saved, SaverError};
use hier_core::runs::{NewRun, Request, RunClaim, RunQuery, RunStore, RunsError};
use hier_postgres::Postgres;
use kit::proxied::Proxied;
use kit::server::{connected, server};
use tokio::task::JoinHandle;
use uuid::Uuid;

const THREADS: u8 = 8;

/// A store with threads of two checkpoints each.
struct Shelf {
    db: Proxied,
    leases: Vec<Lease>,
    /// The first and the last checkpoint of each thread.
    written: Vec<(Checkpoint, Checkpoint)>,
}

type Reading = JoinHandle<Result<Option<Saved>, SaverError>>;

fn name(number: u8) -> String {
    format!("t{number}")
}

impl Shelf {
    async fn open(schema: &'static str) -> Self {
        let db = Proxied::open(schema).await;
        let store = &db.store;
        let (mut leases, mut written) = (Vec::new(), Vec::new());
        for number in 0..THREADS {
            let lease = store.acquire(&name(number), Claim::default()).await.expect("free");
            let (first, one) = kit::next(None, &[(0, false, vec![number]), (1, false, vec![number, 1])], 2);
            let (second, two) = kit::next(Some(&first), &[(0, false, vec![number, 2])], 2);
            store.commit(&lease, vec![one, two, kit::write(second.id, 0, &[number, 3])].into()).await.expect("stored");
            leases.push(lease);
            written.push((first, second));
        }
        Self { db, leases, written }
    }

    fn read(&self, thread: String, id: Option<Uuid>) -> Reading {
        let store = self.db.store.clone();
        tokio::spawn(async move { store.get(&thread, "", id).await })
    }

    /// Locks the checkpoints and asks for one, for which others then wait.
    async fn first_waits(&self) -> Reading {
        self.db.run("begin; lock table {s}.checkpoints in access exclusive mode").await;
        let first = self.read(name(0), None);
        self.db.until_blocked(1).await;
        first
    }

    fn is_last(&self, number: u8, saved: &Saved) {
        assert_eq!(saved.checkpoint, self.written[usize::from(number)].1);
        let values: Vec<_> = saved.values.iter().map(|(channel, chain)| (*channel, chain.full.clone())).collect();
        assert_eq!(values, [(0, Some(vec![number, 2])), (1, Some(vec![number, 1]))]);
        assert_eq!(saved.writes[0].writes[0].value, [number, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn each_reader_gets_its_own_result() {
    let shelf = Shelf::open("reads_own").await;
    let first = shelf.first_waits().await;
    let last: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), None)).collect();
    let again: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), None)).collect();
    let ids: Vec<_> = shelf.written.iter().map(|(_, last)| last.id).collect();
    let named: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), Some(ids[usize::from(number)]))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(shelf.db.blocked().await, 1, "the others wait for this one");
    shelf.db.road.round_trips();
    shelf.db.run("commit").await;
    shelf.is_last(0, &first.await.expect("it ends").expect("read").expect("there"));
    for reads in [last, again, named] {
        for (number, read) in (1..THREADS).zip(reads) {
            shelf.is_last(number, &read.await.expect("it ends").expect("read").expect("there"));
        }
    }
    let trips = shelf.db.road.round_trips();
    assert!(trips <= 2, "{trips} round trips: one that was on its way, and the rest");
}

/// An earlier one, a missing one, one that another process has stored since, and one whose values are only additions.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn changes_of_other_processes_are_read() {
    let shelf = Shelf::open("reads_other").await;
    let other = Postgres::options().schema(shelf.db.schema).connect(&server()).await.expect("the server");
    let (third, record) = kit::next(Some(&shelf.written[3].1), &[(0, false, vec![9])], 2);
    other.commit(&shelf.leases[3], vec![record].into()).await.expect("stored");
    let (added, record) = kit::next(Some(&shelf.written[4].1), &[(0, true, vec![8])], 2);
    shelf.db.store.commit(&shelf.leases[4], vec![record].into()).await.expect("stored");
    let (early, gone) = (shelf.written[1].0.clone(), Uuid::from_u128(1));
    shelf.db.run("delete from {s}.checkpoints where thread = (select key from {s}.threads where name = 't6')").await;
    shelf.db.run("delete from {s}.threads where name = 't7'").await;
    let first = shelf.first_waits().await;
    let asked = [(1, Some(early.id)), (2, Some(gone)), (3, None), (4, None), (5, None), (6, None), (7, None)];
    let reads = asked.map(|(number, id)| shelf.read(name(number), id));
    tokio::time::sleep(Duration::from_millis(200)).await;
    shelf.db.run("commit").await;
    shelf.is_last(0, &first.await.expect("it ends").expect("read").expect("there"));
    let mut found = Vec::new();
    for read in reads {
        found.push(read.await.expect("it ends").expect("read"));
    }
    let [at_first, none, by_other, longer, as_it_was, emptied, deleted] = found.try_into().expect("as many");
    let values = |saved: &Option<Saved>, channel: usize| {
        let chain = saved.as_ref().expect("there").values[channel].1.clone();
        (chain.full, chain.deltas)
    };
    assert_eq!(at_first.as_ref().expect("there").checkpoint, early);
    assert_eq!(values(&at_first, 0), (Some(vec![1]), vec![]));
    assert_eq!(by_other.as_ref().expect("there").checkpoint, third);
    assert_eq!(values(&by_other, 0), (Some(vec![9]), vec![]));
    assert_eq!(values(&by_other, 1), (Some(vec![3, 1]), vec![]));
    assert_eq!(longer.as_ref().expect("there").checkpoint, added);
    assert_eq!(values(&longer, 0), (Some(vec![4, 2]), vec![vec![8]]));
    shelf.is_last(5, &as_it_was.expect("there"));
    assert_eq!([none, emptied, deleted], [None, None, None]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn reads_are_repeated_after_a_lost_connection() {
    let shelf = Shelf::open("reads_die").await;
    let first = shelf.first_waits().await;
    let reads: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), None)).collect();
    let kills = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%\"reads_die\".saved%'";
    for _ in 0..3 {
        shelf.db.watch.query_one(kills, &[]).await.expect("the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!first.is_finished() && reads.iter().all(|read| !read.is_finished()), "no read gets an answer");
    shelf.db.run("commit").await;
    shelf.is_last(0, &first.await.expect("it ends").expect("read").expect("there"));
    for (number, read) in (1..THREADS).zip(reads) {
        shelf.is_last(number, &read.await.expect("it ends").expect("read").expect("there"));
    }
}

/// The first caller is dropped, and the next ones are answered.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn dropped_pending_request_blocks_no_other() {
    let shelf = Shelf::open("reads_dropped").await;
    let first = shelf.first_waits().await;
    let reads: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), None)).collect();
    first.abort();
    reads[2].abort();
    shelf.db.run("commit").await;
    for (number, read) in (1..THREADS).zip(reads) {
        match read.await {
            Ok(read) => shelf.is_last(number, &read.expect("read").expect("there")),
            Err(error) => assert!(error.is_cancelled() && number == 3),
        }
    }
}

/// A runtime is not driven any more, and not dropped either, while it has sent what others wait for: they wait as long as a statement may
/// take, and then ask for themselves.
#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn read_on_a_stopped_runtime_does_not_block_other_reads() {
    let url = server();
    let build = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (still, driven) = (build(), build());
    let limit = Duration::from_secs(1);
    let options = Postgres::options().schema("reads_still").statement_timeout(limit);
    let store = driven.block_on(options.connect(&url)).expect("the server");
    driven.block_on(store.migrate()).expect("tables");
    let sql = driven.block_on(connected(&url));
    let locks = "begin; lock table reads_still.threads in access exclusive mode";
    driven.block_on(sql.batch_execute(locks)).expect("the server");
    still.block_on(async {
        let reading = tokio::time::timeout(Duration::from_millis(200), store.get("t", "", None));
        assert!(reading.await.is_err(), "it waits for the lock");
    });
    driven.block_on(async {
        sql.batch_execute("commit").await.expect("the server");
        for _ in 0..2 {
            let reading = tokio::time::timeout(20 * limit, store.get("t", "", None));
            assert_eq!(reading.await.expect("an answer").expect("the server"), None);
        }
    });
}

/// A large read runs alone: requests that arrive meanwhile are answered before it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn large_read_delays_no_other() {
    let shelf = Shelf::open("reads_large").await;
    let (_, record) = kit::next(Some(&shelf.written[0].1), &[(0, false, vec![7; 1 << 20])], 2);
    shelf.db.store.commit(&shelf.leases[0], vec![record].into()).await.expect("stored");
    let large = shelf.first_waits().await;
    let reads: Vec<_> = (1..THREADS).map(|number| shelf.read(name(number), None)).collect();
    shelf.db.until_blocked(2).await;
    shelf.db.run("commit").await;
    assert_eq!(large.await.expect("it ends").expect("read").expect("there").values[0].1.full, Some(vec![7; 1 << 20]));
    for (number, read) in (1..THREADS).zip(reads) {
        shelf.is_last(number, &read.await.expect("it ends").expect("read").expect("there"));
    }
}

/// Waiting runs are claimed together, and a run of a locked thread is skipped.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn waiting_runs_are_claimed_together_except_held_ones() {
    let shelf = Shelf::open("reads_claims").await;
    for number in 0..THREADS {
        let new = NewRun::new(format!("r{number}"), "desk", Request::default()).create_thread();
        shelf.db.store.driver().create_run(new).await.expect("added");
    }
    // Notifications to others have been sent by then.
    tokio::time::sleep(Duration::from_millis(100)).await;
    shelf.db.run("begin; select 1 from {s}.run_threads where name = 'r3' for update").await;
    shelf.db.road.round_trips();
    let claim = || RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
    let claimed = tokio::time::timeout(Duration::from_secs(10), shelf.db.store.driver().claim_runs(claim(), 6)).await;
    let claimed = claimed.expect("it waits for no other read").expect("the server");
    let trips = shelf.db.road.round_trips();
    let threads: Vec<_> = claimed.iter().map(|claimed| claimed.run.thread.as_str()).collect();
    assert_eq!(threads, ["r0", "r1", "r2", "r4", "r5"]);
    // One by one it would take seven: the read of the waiting runs, five claims and the notification. On a busy machine the claims may need
    // several statements.
    assert!(trips < 7, "{trips} round trips");
    let rest = shelf.db.store.driver().claim_runs(claim(), 6).await.expect("the server");
    let threads: Vec<_> = rest.iter().map(|claimed| claimed.run.thread.as_str()).collect();
    assert_eq!(threads, ["r6", "r7"]);
    assert!(shelf.db.store.driver().claim_runs(claim(), 6).await.expect("the server").is_empty());
    shelf.db.run("commit").await;
    assert_eq!(
        shelf.db.store.driver().claim_run(claim()).await.expect("the server").expect("it is free").run.thread,
        "r3"
    );
}

/// A claim times out while the server executes it, and then holds the thread itself. It is not given up, because
/// no worker could claim the run before its lease expires.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn claim_still_running_in_the_server_is_awaited() {
    let url = server();
    let options = Postgres::options().schema("reads_slow_claim").statement_timeout(Duration::from_secs(1));
    let store = options.connect(&url).await.expect("the server");
    store.migrate().await.expect("tables");
    let added =
        store.driver().create_run(NewRun::new("r", "desk", Request::default()).create_thread()).await.expect("added");
    let sql = connected(&url).await;
    sql.batch_execute("begin; lock table reads_slow_claim.runs in share mode").await.expect("the server");
    let claiming = tokio::spawn(async move {
        let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        store.driver().claim_run(claim).await
    });
    // The first statement holds the thread and waits for the table; those after it have no answer in time either.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    sql.batch_execute("commit").await.expect("the server");
    let claimed = claiming.await.expect("it ends").expect("the server").expect("it was claimed");
    assert_eq!((claimed.run.id, claimed.run.attempts), (added.id, 1));
}

/// Runs that are added to many threads at once are read together: each gets its own number and its earlier runs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn concurrently_added_runs_find_their_threads() {
    let shelf = Shelf::open("reads_added").await;
    let mut twice = NewRun::new("r0", "desk", Request::default()).create_thread();
    twice.id = Some(Uuid::from_u128(5));
    shelf.db.store.driver().create_run(twice.clone()).await.expect("added");
    shelf.db.run("begin; lock table {s}.run_threads in access exclusive mode").await;
    let store = shelf.db.store.clone();
    let again = tokio::spawn(async move { store.driver().create_run(twice).await });
    shelf.db.until_blocked(1).await;
    let mut adding = Vec::new();
    for number in 1..40 {
        let (store, mut new) =
            (shelf.db.store.clone(), NewRun::new(format!("r{}", number % 8), "desk", Request::default()));
        // Those of the fourth thread extend a missing checkpoint.
        if number % 8 != 4 {
            new = new.create_thread();
        }
        adding.push(tokio::spawn(async move { (new.thread.clone(), store.driver().create_run(new).await) }));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(shelf.db.blocked().await, 1, "the others wait for this one");
    shelf.db.run("commit").await;
    assert!(matches!(again.await.expect("it ends"), Err(RunsError::Exists { .. })), "its id is there");
    let mut numbers = std::collections::BTreeSet::new();
    for adding in adding {
        match adding.await.expect("it ends") {
            (thread, Err(RunsError::NoThread { .. })) => assert_eq!(thread, "r4"),
            (thread, added) => {
                let added = added.expect("added");
                assert_eq!(added.thread, thread);
                assert!(numbers.insert(added.number), "{} is that of another run", added.number);
            }
        }
    }
    for (thread, wanted) in [("r0", 1 + 4), ("r1", 5), ("r7", 5)] {
        let mut query = RunQuery::thread(thread);
        query.limit = 100;
        assert_eq!(shelf.db.store.driver().runs(query).await.expect("runs").len(), wanted, "of {thread}");
    }
}
