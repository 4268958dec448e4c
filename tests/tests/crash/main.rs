//! Processes that are killed at random instants: the end is that of an undisturbed run, no task that was
//! committed is executed again, and the database stays whole.
//!
//! The tests on Postgres start their own servers, since they kill them.

mod agents;
mod background;
mod books;
mod desk;
mod detached;
mod place;
mod steps;
mod target;
mod tree;
mod victim;
mod workers;

use std::time::Duration;

use hier_core::Durability;
use place::Place;
use tree::{Life, Thread};

/// Kills processes this many times. Each thread is then run to its end, and a new one begins.
fn kill_often(place: &Place, kills: usize, mut between: impl FnMut(usize)) {
    let (mut killed, mut at_work, mut threads) = (0, 0, 0);
    while killed < kills {
        threads += 1;
        let durability = if threads % 3 == 0 { Durability::Async } else { Durability::Sync };
        let mut thread = Thread::new(place, &format!("t{threads}"), durability);
        loop {
            let alive = Duration::from_micros(fastrand::u64(500..60_000));
            match thread.live(Some(alive).filter(|_| killed < kills)) {
                Life::Killed { at_work: hit } => {
                    killed += 1;
                    at_work += usize::from(hit);
                    between(killed);
                }
                Life::Asked | Life::Failed => {}
                Life::Finished => break,
            }
        }
        thread.check_end();
    }
    println!("{killed} kills, {at_work} of them of a process that was running its thread, {threads} threads");
    assert!(at_work * 2 >= killed, "only {at_work} of {killed} kills hit a running process: change the times");
    place.check();
}

#[test]
fn sqlite_survives_kills() {
    kill_often(&Place::sqlite(), 200, |_| {});
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn postgres_survives_kills_of_processes_and_server() {
    let place = Place::postgres();
    kill_often(&place, 200, |killed| {
        if killed % 20 == 0 {
            place.crash_server();
        }
    });
}

/// A server dies under a running process. Whatever the process does, the thread continues.
#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn postgres_survives_a_crash_under_a_running_process() {
    let place = Place::postgres();
    for number in 0..3 {
        let mut thread = Thread::new(&place, &format!("s{number}"), Durability::Sync);
        let running = thread.start();
        std::thread::sleep(Duration::from_millis(fastrand::u64(60..200)));
        place.crash_server();
        thread.end(running);
        while !matches!(thread.live(None), Life::Finished) {}
        thread.check_end();
    }
    place.check();
}

#[test]
fn overtaken_process_stores_nothing_in_sqlite() {
    overtake(&Place::sqlite());
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn overtaken_process_stores_nothing_in_postgres() {
    overtake(&Place::postgres());
}

/// The process that lost its thread gets an error, and its later work is not stored.
fn overtake(place: &Place) {
    let mut thread = Thread::new(place, "two", Durability::Sync);
    // The first question comes after seven of them: until then the other process must have begun.
    thread.delay = Duration::from_secs(2);
    let stale = thread.start();
    thread.wait_for_lines(1);
    (thread.delay, thread.overtakes) = (Duration::from_millis(1), true);
    while !matches!(thread.live(None), Life::Finished) {}
    let (status, said) = stale.finish();
    assert!(!status.success() && said.contains("another run has taken over thread"), "{said}");
    thread.check_state();
    place.check();
}

#[test]
fn public_target_survives_kills_on_sqlite() {
    target::survives(&Place::sqlite(), 40);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn the_public_target_survives_kills_on_postgres() {
    let place = Place::postgres();
    target::survives(&place, 20);
}

#[test]
fn runs_survive_kills_of_workers_on_sqlite() {
    workers::survive(&Place::sqlite(), 100);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn runs_survive_kills_of_workers_on_postgres() {
    let place = Place::postgres();
    workers::survive(&place, 60);
}

#[test]
fn detached_subagents_survive_a_kill_of_their_worker_on_sqlite() {
    detached::survives_a_kill(&Place::sqlite());
}

#[test]
fn detached_subagents_fail_if_they_kill_their_workers_on_sqlite() {
    detached::fails_if_it_kills_its_workers(&Place::sqlite());
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn detached_subagents_survive_kills_on_postgres() {
    detached::survives_a_kill(&Place::postgres());
    detached::fails_if_it_kills_its_workers(&Place::postgres());
}
