//! Workers that are killed at random instants: every run that was accepted ends, and none counts twice.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::runs::{
    EventQuery, LogEvent, NewRun, Request, Run as Row, RunQuery, RunStatus, RunStore, StreamMode, ThreadQuery,
    ThreadStatus,
};
use hier_core::{CancellationToken, Durability};
use hier_worker::Worker;
use serde_json::json;

use super::place::{Place, open_runs};
use super::victim::PLACE;

const WORKERS: usize = 3;
const THREADS: usize = 8;
const LEASE: Duration = Duration::from_millis(300);

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Account {
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    runs: Vec<u64>,
}

graph! {
    Booking<Account> = Graph {
        nodes: [check = book, pay = book, tell = book],
        edges: [START >> check >> pay >> tell >> END],
    }
}

async fn book() -> AccountUpdate {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..8))).await;
    Account::update().done(1)
}

/// A worker, until it is killed.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = open_runs(&std::env::var(PLACE).expect("the place")).await;
        let worker = Worker::new(store).graph("booking", Booking::compile().erase(|_| Ok(())));
        // Each may be hit by many of the kills.
        let worker =
            worker.lease_duration(LEASE).poll_interval(Duration::from_millis(20)).max_attempts(u32::MAX).concurrency(4);
        worker.run_until(CancellationToken::new()).await;
    });
}

fn start(place: &Place) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "workers::child_process"]).env(PLACE, place.name());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs itself")
}

/// Kills workers this many times while runs are open, and then runs all of them to their end.
pub(crate) fn survive(place: &Place, kills: usize) {
    let store = place.runtime.block_on(open_runs(&place.name()));
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| start(place)).collect();
    let (mut accepted, mut killed) = (Vec::new(), 0);
    while killed < kills {
        // About as many as are done meanwhile.
        if place.runtime.block_on(live(&store)) < 2 * THREADS {
            for _ in 0..THREADS {
                accepted.push(place.runtime.block_on(accept(&store, accepted.len())));
            }
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..120)));
        let victim = &mut workers[killed % WORKERS];
        victim.kill().expect("it can be killed");
        victim.wait().expect("it has ended");
        *victim = start(place);
        killed += 1;
    }
    place.runtime.block_on(async {
        while live(&store).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        check(&store, &accepted).await;
    });
    for mut worker in workers {
        worker.kill().expect("it can be killed");
        worker.wait().expect("it has ended");
    }
    println!("{kills} kills, {} runs", accepted.len());
    place.check();
}

async fn live(store: &Arc<dyn RunStore>) -> usize {
    let mut query = RunQuery::default().live();
    query.limit = usize::MAX;
    store.runs(query).await.expect("the runs").len()
}

async fn accept(store: &Arc<dyn RunStore>, number: usize) -> Row {
    let thread = format!("t{}", number % THREADS);
    let mut request = Request::input(json!({ "runs": [number] }));
    request.durability = [Durability::Sync, Durability::Async, Durability::Exit][number % 3];
    request.stream_modes = vec![StreamMode::Updates];
    store.create_run(NewRun::new(thread, "booking", request).create_thread()).await.expect("it is accepted")
}

/// Each run has ended once, in order, and its results exist once.
async fn check(store: &Arc<dyn RunStore>, accepted: &[Row]) {
    for row in accepted {
        let ended = store.run(row.id).await.expect("the store").expect("the run");
        assert_eq!((ended.status, ended.error), (RunStatus::Success, None), "run {}", row.id);
    }
    let mut query = ThreadQuery::default();
    query.limit = usize::MAX;
    for thread in store.search_threads(query).await.expect("the threads") {
        assert_eq!(thread.status, ThreadStatus::Idle, "thread {}", thread.id);
        let own: Vec<&Row> = accepted.iter().filter(|row| row.thread == thread.id).collect();
        let values = thread.values.expect("values");
        assert_eq!(values["done"], json!(3 * own.len()), "each node of each run counts once");
        let numbers: Vec<_> = own.iter().map(|row| row.request.input["runs"][0].clone()).collect();
        assert_eq!(values["runs"], json!(numbers), "in their turn");
        check_events(store, &thread.id, &own).await;
    }
}

async fn check_events(store: &Arc<dyn RunStore>, thread: &str, own: &[&Row]) {
    let page = store.events(EventQuery::after(thread, 0).limit(usize::MAX >> 1)).await.expect("the events");
    let numbers: Vec<u64> = page.events.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=page.last).collect::<Vec<_>>(), "without a gap");
    let ends: Vec<_> = page
        .events
        .iter()
        .filter(|row| matches!(row.event.body, LogEvent::End { .. }))
        .filter_map(|row| row.event.run)
        .collect();
    assert_eq!(ends, own.iter().map(|row| row.id).collect::<Vec<_>>(), "each has ended once");
}
