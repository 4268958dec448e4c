//! Postgres that falls silent, runtimes that end, calls that are dropped: everything ends, and nothing is held.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::sync::OnceLock;
use std::time::Duration;

use hier_core::checkpoint::{
    Checkpointer, Claim, InboxMessage, ListQuery, PostOutcome, SaverError, ThreadAdmin, WhenRunning,
};
use hier_core::runs::{
    AssistantPatch, Assistants, EventQuery, LogEvent, NewAssistant, NewEvent, NewRun, NewThread, Request, RunClaim,
    RunCommit, RunStore, RunsError, ThreadIs,
};
use hier_postgres::Postgres;
use kit::server::{Road, blocked, connected, server};
use tokio::time::{Instant, timeout};

/// More than any of these calls may take, on a machine with other work.
const LONG: Duration = Duration::from_mins(1);

fn reject() -> Claim {
    Claim { when_running: WhenRunning::Reject, ..Claim::default() }
}

/// A saver that gives up soon.
async fn saver(url: &str, schema: &str) -> Postgres {
    let options = Postgres::options().schema(schema).connections(2).retry_for(Duration::from_millis(500));
    let saver = options.statement_timeout(Duration::from_millis(300)).connect(url).await.expect("the server");
    saver.migrate().await.expect("tables");
    saver
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn silent_server_times_out() {
    let url = server();
    let road = Road::to(&url).await;
    let saver = saver(&road.url, "silent").await;
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (_, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    road.silence();
    // More calls than connections: those that wait for one are given up as well.
    let all = async {
        tokio::join!(
            async { saver.get("t", "", None).await.map(|_| ()) },
            async { saver.commit(&lease, vec![record].into()).await.map(|_| ()) },
            async { saver.renew(&lease).await },
            async { saver.acquire("other", Claim::default()).await.map(|_| ()) },
            async { saver.list(ListQuery::default()).await.map(|_| ()) },
            async { saver.copy_thread("t", "copy").await },
        )
    };
    let (get, commit, renew, acquire, list, copy) = timeout(LONG, all).await.expect("an end");
    for result in [get, commit, renew, acquire, list, copy] {
        let error = result.expect_err("no answer");
        assert!(matches!(error, SaverError::Database { .. }), "{error:?}");
    }
    let error = saver.release(&lease).await.expect_err("no answer").to_string();
    assert!(error.contains("connect") || error.contains("no answer within 300ms"), "{error}");
}

/// The lease is renewed on a new connection, long before it has run out.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn connections_that_fall_silent_are_replaced() {
    let url = server();
    let road = Road::to(&url).await;
    let options = Postgres::options().schema("replaced").connections(2);
    let saver = options.statement_timeout(Duration::from_mins(1)).connect(&road.url).await.expect("the server");
    saver.migrate().await.expect("tables");
    let claim = Claim { lasts: Duration::from_secs(6), ..Claim::default() };
    let lease = saver.acquire("t", claim).await.expect("the thread");
    road.silence_connections();
    let start = Instant::now();
    saver.renew(&lease).await.expect("the lease, on a new connection");
    assert!(start.elapsed() < Duration::from_secs(6), "its lease would have run out: {:?}", start.elapsed());
    let (_, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    timeout(LONG, saver.commit(&lease, vec![record].into())).await.expect("an end").expect("a commit");
}

/// A saver in a static, as tests and programs with several runtimes have it.
#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn saver_outlives_the_runtime_it_was_made_in() {
    static SAVER: OnceLock<Postgres> = OnceLock::new();
    let url = server();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let store = async |number: u8| {
        let saver = SAVER.get().expect("a saver");
        let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
        let (_, record) = kit::next(None, &[(0, false, vec![number])], 1);
        timeout(LONG, saver.commit(&lease, vec![record].into())).await.expect("an end").expect("a commit");
    };
    let first = runtime();
    first.block_on(async {
        let saver = Postgres::options().schema("runtimes").connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        SAVER.set(saver).expect("the first");
        store(1).await;
    });
    // With a commit under way.
    first.block_on(async {
        let saver = SAVER.get().expect("a saver");
        let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
        let (_, record) = kit::next(None, &[(0, false, vec![9; 1 << 20])], 1);
        let _ = timeout(Duration::ZERO, saver.commit(&lease, vec![record].into())).await;
    });
    drop(first);
    runtime().block_on(store(2));
}

/// The next call finds the thread free, at whatever moment the call before was dropped.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn dropped_claim_holds_nothing() {
    let url = server();
    let saver = Postgres::options().schema("dropped").connect(&url).await.expect("the server");
    saver.migrate().await.expect("tables");
    for round in 0..300_u64 {
        let moment = Duration::from_micros(round * 7_919 % 1_500);
        let claimed = match timeout(moment, saver.acquire("t", reject())).await {
            Ok(claimed) => claimed,
            Err(_) => saver.acquire("t", reject()).await,
        };
        let lease = claimed.expect("the free thread");
        saver.release(&lease).await.expect("a release");
    }
}

/// The server has done it, and the call is dropped before it knows.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn claim_dropped_before_its_answer_is_undone() {
    let url = server();
    let road = Road::to(&url).await;
    let saver = Postgres::options().schema("undone").connections(1).connect(&road.url).await.expect("the server");
    saver.migrate().await.expect("tables");
    // The statements are prepared, so that the answer that is held is that of the claim.
    let lease = saver.acquire("t", reject()).await.expect("the thread");
    saver.release(&lease).await.expect("a release");
    road.hold_answers();
    let claiming = saver.acquire("t", reject());
    tokio::select! {
        _ = claiming => panic!("an answer"),
        () = road.answer_is_held() => {}
    }
    let other = Postgres::options().schema("undone").connect(&url).await.expect("the server");
    let busy = other.acquire("t", reject()).await.expect_err("the server has done it");
    assert!(matches!(busy, SaverError::Busy { .. }), "{busy:?}");
    road.let_answers_go();
    let wait = Claim { when_running: WhenRunning::Wait(Duration::from_secs(20)), ..Claim::default() };
    other.acquire("t", wait).await.expect("the thread, before the lease has run out");
}

/// The server has stored a change of a thread's runs, another process has changed the thread since, and the answer is lost. It is not made
/// again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn run_change_with_a_lost_answer_is_made_once() {
    let url = server();
    let road = Road::to(&url).await;
    let open = |url: String| async move {
        let store =
            Postgres::options().schema("made_once_only").connections(1).connect(&url).await.expect("the server");
        store.migrate().await.expect("tables");
        store
    };
    let (here, there) = (open(road.url.clone()).await, open(url).await);
    let run = |thread: &str| NewRun::new(thread, "desk", Request::default()).create_thread();
    for (number, deletes) in [false, true].into_iter().enumerate() {
        let thread = format!("t{number}");
        here.driver().create_run(run(&thread)).await.expect("a run");
        let claim = RunClaim::new("desk 1", Duration::from_mins(5), ["desk".to_owned()]);
        let claimed = here.driver().claim_run(claim).await.expect("the server").expect("the run");
        let received = || {
            NewEvent::new(
                Some(claimed.run.id),
                LogEvent::Custom { node: "node".to_owned(), value: serde_json::json!("once") },
            )
        };
        let seen = async || {
            let page = there.driver().events(EventQuery::after(&*thread, 0)).await.expect("its events");
            page.events.iter().filter(|row| row.event.mode() == "custom").count()
        };
        road.hold_answers();
        let recording = here.driver().commit_run(&claimed.lease, RunCommit::events(vec![received()]));
        let between = async {
            // Notifications to other processes go the same way.
            loop {
                road.answer_is_held().await;
                if seen().await > 0 {
                    break;
                }
                road.let_answers_go();
                road.hold_answers();
            }
            if deletes {
                assert!(there.driver().remove_thread(&thread).await.expect("it is deleted"));
            }
            there.driver().create_run(run(&thread)).await.expect("another run");
            road.lose_the_held_answer();
        };
        let (recorded, ()) = timeout(LONG, async { tokio::join!(recording, between) }).await.expect("an end");
        recorded.expect("it was stored");
        assert_eq!(seen().await, usize::from(!deletes), "{thread}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn schemas_can_be_keywords_and_times_unbounded() {
    let url = server();
    for schema in ["user", "order", "table"] {
        let options = Postgres::options().schema(schema).retry_for(Duration::MAX).statement_timeout(Duration::MAX);
        let saver = options.clone().connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        let lease = saver.acquire("t", Claim { lasts: Duration::MAX, ..Claim::default() }).await.expect("the thread");
        let (checkpoint, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
        saver.commit(&lease, vec![record].into()).await.expect("a commit");
        saver.renew(&lease).await.expect("the lease");
        let latest = saver.get("t", "", None).await.expect("a checkpoint").expect("the latest");
        assert_eq!(latest.checkpoint, checkpoint);
        let again = options.connect(&url).await.expect("the server");
        assert_eq!(again.threads(None).await.expect("a list").len(), 1);
    }
}

/// The server may limit a user's wait for a lock. The call is retried, and its last error names the reason.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn held_lock_is_awaited() {
    let url = server();
    let own = format!("{url}?options=-c%20lock_timeout%3D50ms");
    let saver = Postgres::options().schema("locked").connect(&own).await.expect("the server");
    saver.migrate().await.expect("tables");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    let lock = "begin; select 1 from locked.threads where name = 't' for update";
    client.batch_execute(lock).await.expect("a lock");
    let (_, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    let committing = saver.commit(&lease, vec![record.clone()].into());
    let unlocking = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.batch_execute("rollback").await.expect("no lock");
    };
    tokio::join!(committing, unlocking).0.expect("a commit, at last");
    client.batch_execute(lock).await.expect("a lock");
    let hasty = Postgres::options().schema("locked").retry_for(Duration::from_millis(100));
    let hasty = hasty.connect(&own).await.expect("the server");
    let error = hasty.commit(&lease, vec![record].into()).await.expect_err("it is locked").to_string();
    assert!(error.contains("raise the `lock_timeout` of the database user"), "{error}");
}

/// As a standby after a failover.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn read_only_server_is_reported() {
    let url = server();
    let saver = Postgres::options().schema("standby").connect(&url).await.expect("the server");
    saver.migrate().await.expect("tables");
    let own = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    let hasty = Postgres::options().schema("standby").retry_for(Duration::from_millis(100));
    let hasty = hasty.connect(&own).await.expect("the server");
    let error = hasty.acquire("t", Claim::default()).await.expect_err("it only reads").to_string();
    assert!(error.contains("target_session_attrs=read-write"), "{error}");
}

/// Makes a call whose answer is lost after the server has done it, and returns the result of the call.
async fn with_a_lost_answer<T>(road: &Road, call: impl Future<Output = T>, is_done: impl AsyncFn() -> bool) -> T {
    road.hold_answers();
    let losing = async {
        loop {
            // Notifications to other processes go the same way.
            road.answer_is_held().await;
            if is_done().await {
                return road.lose_the_held_answer();
            }
            road.let_answers_go();
            road.hold_answers();
        }
    };
    timeout(LONG, async { tokio::join!(call, losing).0 }).await.expect("an end")
}

/// The caller learns that its own call was successful, and nothing is done twice.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn repeated_call_recognizes_its_own_effect() {
    let url = server();
    let road = Road::to(&url).await;
    let open = |url: String| async move {
        let store = Postgres::options().schema("own_effect").connections(1).connect(&url).await.expect("the server");
        store.migrate().await.expect("tables");
        store
    };
    let (here, there) = (open(road.url.clone()).await, open(url).await);
    let (here, there) = (here.driver(), there.driver());

    let made = async || there.thread("t").await.expect("the server").is_some();
    let thread = with_a_lost_answer(&road, here.create_thread(NewThread::new("t")), made).await.expect("it is new");
    assert_eq!(there.thread("t").await.expect("the server").expect("the thread").created, thread.created);
    let copied = async || there.thread("copy").await.expect("the server").is_some();
    let copy = with_a_lost_answer(&road, here.clone_thread("t", NewThread::new("copy")), copied).await;
    assert_eq!(copy.expect("it is new").id, "copy");
    let error = here.create_thread(NewThread::new("t")).await.expect_err("it exists");
    assert!(matches!(error, RunsError::Exists { .. }), "{error:?}");

    let assistants = Assistants::of(here);
    let revision = async || Some(there.document("assistant", "a").await.expect("the server")?.revision);
    let create = assistants.create(NewAssistant::new("a", "desk"));
    let assistant = with_a_lost_answer(&road, create, async || revision().await == Some(1)).await.expect("it is new");
    let mut patch = AssistantPatch::default();
    patch.name = Some("new".to_owned());
    let change = assistants.update("a", patch);
    let changed = with_a_lost_answer(&road, change, async || revision().await == Some(2)).await.expect("a change");
    assert_eq!((assistant.version, changed.version, revision().await), (1, 2, Some(2)), "it was changed once");

    let id = uuid::Uuid::from_u128(1);
    let post = || here.post_if("t", ThreadIs::default(), "desk", InboxMessage::message(id, b"hello".to_vec()));
    let posted = async || !there.inbox().expect("inboxes").messages("t").await.expect("the server").is_empty();
    let outcome = with_a_lost_answer(&road, post(), posted).await.expect("a message");
    assert_eq!((outcome, post().await.expect("the server")), (PostOutcome::Stored, PostOutcome::Duplicate));
}

/// A thread has expired, and another process is changing it while it is swept.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn sweep_spares_a_thread_that_is_used_again() {
    let url = server();
    let store = Postgres::options().schema("used_again").connect(&url).await.expect("the server");
    store.migrate().await.expect("tables");
    for thread in ["used", "unused"] {
        let mut new = NewThread::new(thread);
        new.time_to_live = Some(Duration::ZERO);
        store.driver().create_thread(new).await.expect("a thread");
    }
    let (other, watch) = (connected(&url).await, connected(&url).await);
    let used = "begin; update used_again.run_threads set expires = null where name = 'used'";
    other.batch_execute(used).await.expect("a change");
    let sweeping = tokio::spawn({
        let store = store.clone();
        async move { store.sweep().await }
    });
    while !sweeping.is_finished() && blocked(&watch, "used_again").await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.batch_execute("commit").await.expect("a change");
    assert_eq!(sweeping.await.expect("no panic").expect("the server"), 1);
    assert!(store.driver().thread("used").await.expect("the server").is_some());
    assert!(store.driver().thread("unused").await.expect("the server").is_none());
}
