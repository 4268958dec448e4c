//! Processes that are killed at random instants: the end is that of an undisturbed run, no task that was
//! committed is executed again, and the database stays whole.
//!
//! On Postgres, if `HIER_TEST_POSTGRES` is set (to anything: these tests start a server of their own, since they kill it).

mod agents;
mod books;
mod desk;
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

/// Kills processes until there have been so many kills; each thread is then run to its end, and a new one begun.
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
fn postgres_survives_kills_of_processes_and_server() {
    let Some(place) = Place::postgres() else { return };
    kill_often(&place, 200, |killed| {
        if killed % 20 == 0 {
            place.crash_server();
        }
    });
}

/// A server that dies under a running process: whatever that does, the thread goes on.
#[test]
fn postgres_survives_a_crash_under_a_running_process() {
    let Some(place) = Place::postgres() else { return };
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

/// The superseded process gets an error, and its later work is not stored.
#[test]
fn superseded_process_stores_nothing() {
    let places = [Some(Place::sqlite()), Place::postgres()];
    for place in places.into_iter().flatten() {
        let mut thread = Thread::new(&place, "two", Durability::Sync);
        // The first question comes after seven of them. Until then the other process must have started.
        thread.delay = Duration::from_secs(2);
        let stale = thread.start();
        thread.wait_for_lines(1);
        (thread.delay, thread.overtakes) = (Duration::from_millis(1), true);
        while !matches!(thread.live(None), Life::Finished) {}
        let (status, said) = stale.finish();
        assert!(!status.success() && said.contains("has been taken over by another run"), "{said}");
        thread.check_state();
        place.check();
    }
}

#[test]
fn public_target_survives_kills_on_sqlite() {
    target::survives(&Place::sqlite(), 40);
}

#[test]
fn public_target_survives_kills_on_postgres() {
    if let Some(place) = Place::postgres() {
        target::survives(&place, 20);
    }
}

#[test]
fn runs_survive_kills_of_workers_on_sqlite() {
    workers::survive(&Place::sqlite(), 100);
}

#[test]
fn runs_survive_kills_of_workers_on_postgres() {
    if let Some(place) = Place::postgres() {
        workers::survive(&place, 60);
    }
}
