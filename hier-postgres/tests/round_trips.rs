//! The number of requests of a run to the Postgres server. Each costs a round trip, and most of them a plan.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::checkpoint::{Checkpointer, Claim, WhenRunning};
use hier_core::prelude::*;
use hier_core::runs::{
    AddedRun, Claimed, Document, EventQuery, LogEvent, NewEvent, NewRun, Request, RunClaim, RunCommit, RunEnd,
    RunQuery, RunStatus, RunStore, ThreadIndex, ThreadStatus,
};
use hier_postgres::Postgres;
use hier_worker::Worker;
use kit::server::{Road, server};
use serde_json::json;

const ROUNDS: usize = 20;

/// The round trips of each part of a run, in all rounds.
#[derive(Debug, Default)]
struct Count {
    create: usize,
    claim: usize,
    renew: usize,
    steps: usize,
    end: usize,
    read: usize,
}

async fn run(store: &Postgres, road: &Road, thread: &str, steps: usize, count: &mut Count) {
    let new = NewRun::new(thread, "desk", Request::input(json!({ "n": 1 }))).create_thread();
    let made = store.driver().create_run(new).await.expect("a run");
    count.create += road.round_trips();
    let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
    let Claimed { run, lease, .. } = store.driver().claim_run(claim).await.expect("the server").expect("the run");
    assert_eq!(run.id, made.id);
    count.claim += road.round_trips();
    store.renew(&lease).await.expect("held");
    count.renew += road.round_trips();
    let mut last = None;
    for number in 0..steps {
        let (checkpoint, record) = kit::next(last.as_ref(), &[(0, number > 0, vec![7])], 1);
        let mut settlement = RunCommit::records(vec![record]);
        settlement.events = vec![NewEvent::new(run.id, LogEvent::Values(json!({ "n": number })))];
        store.driver().commit_run(&lease, settlement).await.expect("stored");
        last = Some(checkpoint);
    }
    count.steps += road.round_trips();
    let index = ThreadIndex::new(ThreadStatus::Idle).values(json!({ "n": steps }));
    let end = RunEnd::new(run.id, RunStatus::Success).output(json!({ "n": steps }));
    store.driver().commit_run(&lease, RunCommit::default().index(index).end(end)).await.expect("ended");
    count.end += road.round_trips();
    let ended = store.driver().run(run.id).await.expect("the server").expect("the run");
    assert_eq!(ended.status, RunStatus::Success);
    count.read += road.round_trips();
}

/// The limit for a run of three steps: two to add it, two to claim it (a read and a change), one each
/// for the lease, a step, the end and its reader, and one notification for each change.
const MOST: usize = 2 + 2 + 1 + 3 + 1 + 1 + TOLD;
/// The limit of notifications of such a run. Only these statements are planned each time.
const TOLD: usize = 6;

/// A run of three steps, on a new thread each.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn run_takes_few_round_trips() {
    let url = server();
    let road = Road::to(&url).await;
    let store = Postgres::options().schema("round_trips").connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    // It reads this once.
    run(&store, &road, "warm", 3, &mut Count::default()).await;
    let mut count = Count::default();
    road.texts();
    for round in 0..ROUNDS {
        run(&store, &road, &format!("t{round}"), 3, &mut count).await;
    }
    let Count { create, claim, renew, steps, end, read } = &count;
    let texts = road.texts();
    let all = create + claim + renew + steps + end + read;
    println!("round trips of {ROUNDS} runs of 3 steps: {all}, {count:?}; statements that were planned: {texts}");
    assert!(texts <= ROUNDS * TOLD, "{texts} statements of {ROUNDS} runs were planned");
    assert!(all <= ROUNDS * MOST, "{all} round trips of {ROUNDS} runs: {count:?}");
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Line {
    n: u64,
}

async fn add(line: &Line) -> LineUpdate {
    Line::update().n(line.n + 1)
}

graph! { One<Line> = Graph { nodes: [add], edges: [START >> add >> END] } }

/// The maximum number of statements for a run of one node on an existing thread, from its creation to the read of its result: the
/// thread's rows, their change, the last checkpoint with its values and writes, the end with all checkpoints, whose row the waiting
/// caller receives, and the notification of other processes.
const MOST_OF_A_WORKER: usize = 2 + 1 + 1 + 3;

/// A run that is added where a worker has a place for it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn run_of_a_worker_in_the_same_process_takes_few_round_trips() {
    let url = server();
    let road = Road::to(&url).await;
    let store = Postgres::options().schema("worker_trips").connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    let store: Arc<dyn RunStore> = Arc::new(store);
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).graph("one", One::compile().erase(|_| Ok(())));
    let worker = worker.poll_interval(Duration::from_mins(1));
    let handle = worker.handle();
    let working = tokio::spawn(worker.run_until(stop.clone()));
    for round in 0..=ROUNDS {
        if round == 1 {
            road.round_trips();
        }
        let mut ends = store.notifier().ends("t");
        let new = NewRun::new("t", "one", Request::input(json!({ "n": round }))).create_thread();
        let made = handle.create_run(&store, new).await.expect("a run");
        let ended = loop {
            tokio::time::timeout(Duration::from_secs(10), ends.changed()).await.expect("its end");
            if let Some(row) = ends.ended(made.id) {
                break row;
            }
        };
        assert!(!ended.status.is_live(), "it has ended");
        assert_eq!(ended.output.as_ref().expect("an output")["values"], json!({ "n": round + 1 }));
    }
    let all = road.round_trips();
    println!("round trips of {ROUNDS} runs of one node: {all}");
    assert!(all <= ROUNDS * MOST_OF_A_WORKER, "{all} round trips of {ROUNDS} runs");
    stop.cancel();
    working.await.expect("it stops");
}

/// The server has added and claimed a run, and the answer is lost. The caller has the claim once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn claim_with_a_lost_answer_is_recognized() {
    let url = server();
    let road = Road::to(&url).await;
    let store = Postgres::options().schema("lost_claims").connections(1).connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    let claim = || RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
    let new = || NewRun::new("t", "desk", Request::default()).create_thread();
    // The thread is created, and statements are prepared.
    let AddedRun { claimed: first, .. } = store.driver().create_claimed(new(), claim()).await.expect("a run");
    let first = first.expect("it is claimed on a new thread, too");
    store
        .driver()
        .commit_run(&first.lease, RunCommit::default().end(RunEnd::new(first.run.id, RunStatus::Success)))
        .await
        .expect("its end");
    road.hold_answers();
    let adding = store.clone();
    let adding = tokio::spawn(async move { adding.driver().create_claimed(new(), claim()).await });
    // The existing rows.
    road.answer_is_held().await;
    road.let_answers_go();
    road.hold_answers();
    // The change.
    road.answer_is_held().await;
    road.lose_the_held_answer();
    let AddedRun { run: added, claimed } = adding.await.expect("it ends").expect("a run");
    let claimed = claimed.expect("it was claimed");
    assert_eq!((claimed.run.id, claimed.run.status, claimed.run.attempts), (added.id, RunStatus::Running, 1));
    assert_eq!(store.driver().runs(RunQuery::thread("t")).await.expect("runs").len(), 2, "it is there once");
    assert_eq!(store.driver().claim_run(claim()).await.expect("the server"), None, "no other worker has it");
    let end = RunEnd::new(added.id, RunStatus::Success);
    store.driver().commit_run(&claimed.lease, RunCommit::default().end(end)).await.expect("the lease is good");
    let page = store.driver().events(EventQuery::after("t", 0)).await.expect("events");
    let modes: Vec<_> = page.events.iter().map(|row| row.event.mode()).collect();
    assert_eq!(modes, ["start", "end", "start", "end"]);
}

/// A document that several callers request at once is read once, and no caller gets a state from before its request.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn concurrent_reads_of_a_document_share_one_query() {
    let url = server();
    let road = Road::to(&url).await;
    let open = |url: &str| {
        let url = url.to_owned();
        async move { Postgres::options().schema("shared_reads").connect(&url).await.expect("the server") }
    };
    let (store, other) = (open(&road.url).await, open(&url).await);
    store.migrate().await.expect("tables");
    let document = |value: u64| Document::new("assistant", "a", json!(value));
    assert!(store.driver().put_document(document(1), None).await.expect("the server"));
    let look = |store: Postgres| async move {
        store.driver().document("assistant", "a").await.expect("the server").expect("the document").value
    };
    assert_eq!(look(store.clone()).await, json!(1));
    road.round_trips();
    road.hold_answers();
    let first = tokio::spawn(look(store.clone()));
    road.answer_is_held().await;
    assert!(other.driver().put_document(document(2), Some(1)).await.expect("the server"));
    let others: Vec<_> = (0..10).map(|_| tokio::spawn(look(store.clone()))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    road.let_answers_go();
    assert_eq!(first.await.expect("it ends"), json!(1));
    for reading in others {
        assert_eq!(reading.await.expect("it ends"), json!(2));
    }
    assert_eq!(road.round_trips(), 2);
}

/// This process reads its last checkpoint. If another process has stored since, that one counts.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn reads_see_commits_of_other_processes() {
    let url = server();
    let open = || Postgres::options().schema("two_latest").connect(&url);
    let (one, two) = (open().await.expect("the server"), open().await.expect("the server"));
    one.migrate().await.expect("tables");
    let mut last = None;
    for round in 0..12_u8 {
        let (stores, other) = if round % 3 == 1 { (&two, &one) } else { (&one, &two) };
        let claim = Claim { when_running: WhenRunning::TakeOver, ..Claim::default() };
        let lease = stores.acquire("t", claim).await.expect("the thread");
        let (checkpoint, record) = kit::next(last.as_ref(), &[(0, round % 4 != 0, vec![round])], 2);
        stores.commit(&lease, vec![record].into()).await.expect("stored");
        let wanted: Vec<u8> = (round - round % 4..=round).collect();
        for store in [stores, other] {
            let read = store.get("t", "", None).await.expect("the server").expect("a checkpoint");
            assert_eq!(read.checkpoint.id, checkpoint.id);
            let (channel, chain) = &read.values[0];
            let parts: Vec<u8> = chain.full.iter().chain(&chain.deltas).flatten().copied().collect();
            assert_eq!((read.values.len(), *channel, parts), (1, 0, wanted.clone()));
        }
        last = Some(checkpoint);
    }
}

/// The connection is lost after the server has stored a change. The retry stores nothing again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn change_with_a_lost_answer_is_stored_once() {
    let url = server();
    let road = Road::to(&url).await;
    let store = Postgres::options().schema("lost_answers").connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    for round in 0..5 {
        let thread = format!("t{round}");
        let new = || NewRun::new(&*thread, "desk", Request::default()).create_thread();
        let made = store.driver().create_run(new()).await.expect("a run");
        road.lose_one_answer();
        store.driver().create_run(new()).await.expect("another run");
        assert_eq!(store.driver().runs(RunQuery::thread(&*thread)).await.expect("runs").len(), 2);
        road.lose_one_answer();
        let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        let Claimed { run, lease, .. } = store.driver().claim_run(claim).await.expect("the server").expect("the run");
        assert_eq!((run.id, run.attempts), (made.id, 1));
        for number in 0..3 {
            road.lose_one_answer();
            let received = NewEvent::new(run.id, LogEvent::Values(json!({ "n": number })));
            store.driver().commit_run(&lease, RunCommit::events(vec![received])).await.expect("stored");
        }
        road.lose_one_answer();
        let end = RunEnd::new(run.id, RunStatus::Success);
        store.driver().commit_run(&lease, RunCommit::default().end(end)).await.expect("ended");
        let page = store.driver().events(EventQuery::after(&*thread, 0)).await.expect("events");
        let modes: Vec<_> = page.events.iter().map(|row| (row.number, row.event.mode())).collect();
        assert_eq!(modes, [(1, "start"), (2, "values"), (3, "values"), (4, "values"), (5, "end")]);
        // The other one is not in the way of the next round.
        store.driver().remove_thread(&thread).await.expect("removed");
    }
}

/// None of the changes of a thread gets lost that processes make at once, and its runs are done in order.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn changes_of_two_processes_are_kept() {
    let url = server();
    let open = || Postgres::options().schema("two_processes").connect(&url);
    let (one, two) = (open().await.expect("the server"), open().await.expect("the server"));
    one.migrate().await.expect("tables");
    let mut adding = tokio::task::JoinSet::new();
    for store in [one.clone(), two.clone()] {
        for _ in 0..20 {
            let store = store.clone();
            adding.spawn(async move {
                let new = NewRun::new("t", "desk", Request::default()).create_thread();
                store.driver().create_run(new).await.expect("a run").id
            });
        }
    }
    let made = adding.join_all().await;
    let mut query = RunQuery::thread("t");
    query.limit = usize::MAX;
    let mut listed: Vec<_> = one.driver().runs(query).await.expect("runs").into_iter().map(|run| run.id).collect();
    assert_eq!(listed.len(), made.len());
    listed.reverse();
    for (store, id) in [&one, &two].into_iter().cycle().zip(listed) {
        let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        let Claimed { run, lease, .. } = store.driver().claim_run(claim).await.expect("the server").expect("the run");
        assert_eq!(run.id, id, "first in, first out");
        store
            .driver()
            .commit_run(&lease, RunCommit::default().end(RunEnd::new(id, RunStatus::Success)))
            .await
            .expect("ended");
    }
    let thread = one.driver().thread("t").await.expect("the server").expect("the thread");
    assert_eq!((thread.status, thread.last_event), (ThreadStatus::Idle, 80));
}

/// A read is dropped while the server answers: the next call finds the same connection, once it has said everything.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn dropped_read_keeps_its_connection() {
    let url = server();
    let road = Road::to(&url).await;
    // The timeout of a statement leaves the connection half a minute to become free, however busy the machine is.
    let options = Postgres::options().schema("dropped_reads").connections(1);
    let options = options.statement_timeout(Duration::from_mins(15));
    let store = options.connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    store.driver().thread("t").await.expect("the server");
    let before = road.connections();
    for _ in 0..5 {
        road.hold_answers();
        let reading = store.driver().thread("t");
        tokio::select! {
            _ = reading => panic!("its answer is held"),
            () = road.answer_is_held() => {}
        }
        road.let_answers_go();
        assert_eq!(store.driver().thread("t").await.expect("the server"), None);
    }
    assert_eq!(road.connections(), before, "no connection was opened anew");
}

/// If no answer arrives, the connection is closed. The waiting caller gets another one and does not wait forever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn unanswered_dropped_read_frees_its_connection() {
    let url = server();
    let road = Road::to(&url).await;
    let options = Postgres::options().schema("dropped_for_good").connections(1);
    let store = options.connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    store.driver().thread("t").await.expect("the server");
    let before = road.connections();
    road.hold_answers();
    tokio::select! {
        _ = store.driver().thread("t") => panic!("its answer is held"),
        () = road.answer_is_held() => {}
    }
    road.keep_held_answers();
    assert_eq!(store.driver().thread("t").await.expect("the place of the first"), None);
    assert_eq!(road.connections(), before + 1);
    // As above, for a read that could be batched with others, but is alone.
    road.hold_answers();
    tokio::select! {
        _ = store.get("t", "", None) => panic!("its answer is held"),
        () = road.answer_is_held() => {}
    }
    road.keep_held_answers();
    assert_eq!(store.get("t", "", None).await.expect("the place of the first"), None);
    assert_eq!(road.connections(), before + 2);
}

/// At most half of a pool's connections are waited for. The others become free at once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn half_of_many_dropped_reads_keep_their_connections() {
    let url = server();
    let road = Road::to(&url).await;
    let options = Postgres::options().schema("many_dropped").connections(2);
    let store = options.connect(&road.url).await.expect("the server");
    store.migrate().await.expect("tables");
    let both = async || {
        let (one, other) = tokio::join!(store.driver().thread("a"), store.driver().thread("b"));
        assert_eq!((one.expect("the server"), other.expect("the server")), (None, None));
    };
    both().await;
    let before = road.connections();
    road.hold_answers();
    {
        let (mut one, mut other) =
            (std::pin::pin!(store.driver().thread("a")), std::pin::pin!(store.driver().thread("b")));
        for reading in [&mut one, &mut other] {
            tokio::select! {
                _ = reading => panic!("its answer is held"),
                () = road.answer_is_held() => {}
            }
        }
    }
    road.let_answers_go();
    both().await;
    assert_eq!(road.connections(), before + 1, "one was kept, one closed");
}
