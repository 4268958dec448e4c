//! Random sequences of operations on a thread, against a simple model of what must hold.
//!
//! Under random starts, answers, kills, prunes, copies, updates, migrations and replays of a thread:
//! * no task runs again whose result was committed;
//! * an answer reaches exactly its question, and a second answer is rejected;
//! * a rejected call changes nothing;
//! * every read of the thread, also of its past, continues to work;
//! * the state at the end of a turn is the model's;
//! * a task that waits for a time or a signal continues when it has come, also in a copy, and also if the driving process is killed;
//! * a durable step is done once;
//! * a conversation has the messages that were written to it by id;
//! * a value comes out of every path as it went in: Sends, steps, signals, the state, copies, migrations;
//! * one of two processes wins: a run that was taken over changes nothing.
//!
//! `HIER_SEQUENCES` is the number of sequences, and `HIER_SEED` the number that they are made from. Without a seed every run makes the same
//! sequences, so that a change is not judged by chance. `HIER_SEED=$RANDOM` explores.
//! The sequences on Postgres need a server: `scripts/postgres.sh`.

// One program is compiled over each version of the state.
#![allow(clippy::duplicate_mod)]

mod changing;
mod desk;
mod machine;
mod model;
mod office;
mod operation;
mod processes;
mod program_of;
mod rolling;
mod talk;
mod threads;
mod v1;
mod v2;
mod waking;
mod watched;
mod world;
mod zoo;

use std::path::Path;
use std::sync::Arc;

use hier_core::Durability;
use hier_core::checkpoint::MemorySaver;
use hier_postgres::Postgres;
use hier_sqlite::Sqlite;
use machine::Machine;
use operation::{Death, Operation, operation};
use program_of::Saver;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};
use talk::Talk;
use watched::Fault;
use world::Kind;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a law on random inputs.
fn check<T: std::fmt::Debug>(
    (default_cases, shrinks): (u32, u32),
    input: &impl Strategy<Value = T>,
    law: impl Fn(T) -> Result<(), String>,
) {
    let cases = number("HIER_SEQUENCES").and_then(|count| u32::try_from(count).ok()).unwrap_or(default_cases);
    let seed = number("HIER_SEED").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Cases { cases, failure_persistence: None, max_shrink_iters: shrinks, ..Cases::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(input, |input| {
        let said = format!("{input:?}");
        let held = law(input).inspect_err(|broken| println!("{said}: {broken}"));
        held.map_err(|broken| TestCaseError::fail(format!("{broken} (HIER_SEED={seed})")))
    });
    if let Err(error) = result {
        panic!("HIER_SEED={seed}: {error}");
    }
}

/// Runs random sequences, each on a new thread. The saver is opened once for each of two processes.
fn sequences(default_cases: u32, saver: impl AsyncFn() -> Saver) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let savers = runtime.block_on(async { [saver().await, saver().await] });
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)];
    let input = (durability, proptest::collection::vec(operation(), 1..24));
    check((default_cases, 400), &input, |(durability, operations)| {
        runtime.block_on(Machine::new(&savers, durability).run(&operations))
    });
}

#[test]
fn in_memory() {
    let saver = MemorySaver::new();
    sequences(200, async || Arc::new(saver.clone()) as Saver);
}

async fn sqlite(folder: &Path) -> Saver {
    Arc::new(Sqlite::open(folder.join("threads.db")).await.expect("a file"))
}

fn postgres_url() -> String {
    std::env::var("HIER_TEST_POSTGRES")
        .expect("`HIER_TEST_POSTGRES`, the URL of a server: run it with scripts/postgres.sh")
}

async fn postgres(url: &str) -> Saver {
    let options = Postgres::options().schema(format!("machine_{}", std::process::id()));
    let saver = options.connect(url).await.expect("the server answers");
    saver.migrate().await.expect("the tables are made");
    Arc::new(saver)
}

#[test]
fn in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    sequences(40, async || sqlite(folder.path()).await);
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn in_postgres() {
    let url = postgres_url();
    sequences(20, async || postgres(&url).await);
}

/// A sequence, which may also be one that a failure has printed.
fn outcome(machine: impl FnOnce(&[Saver; 2]) -> Machine, operations: &[Operation]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let saver = Arc::new(MemorySaver::new()) as Saver;
    runtime.block_on(machine(&[saver.clone(), saver]).run(operations))
}

#[test]
fn every_operation_in_turn() {
    use Operation::{
        Answer, AnswerPlainly, AnswerTwice, BranchOff, ChangeAsker, Fork, GoBack, Migrate, Prune, Replay, Run, Update,
        Visit,
    };
    let items = || vec![Kind::Asks, Kind::Fails, Kind::AsksTwice, Kind::Plain];
    let dies = |polls| Some(Death { polls, stalls: false });
    let turn = [Run(items(), None), AnswerTwice, AnswerPlainly(None), Answer(1, dies(3)), Answer(0, None), AnswerTwice];
    let rest =
        [Run(Vec::new(), dies(5)), Fork, Migrate, Prune(1), AnswerPlainly(None), AnswerPlainly(None), Answer(0, None)];
    let plain = || Run(vec![Kind::Plain], None);
    let inside = [plain(), ChangeAsker, plain(), AnswerPlainly(None), BranchOff, plain()];
    let after = [AnswerPlainly(None), AnswerTwice, Update(Talk::Clears), Visit, Replay(0), Answer(2, None)];
    let past = [plain(), Answer(0, None), Answer(0, None), Visit, GoBack(1), Prune(3), Replay(0)];
    let operations: Vec<_> = [&turn[..], &rest, &inside, &after, &past].concat();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        outcome(|savers| Machine::new(savers, durability), &operations).expect("the laws hold");
    }
}

/// Returns the machine's error for a saver with a fault.
fn found(fault: Fault, operations: &[Operation]) -> String {
    outcome(|savers| Machine::faulty(savers, Durability::Sync, fault), operations).unwrap_err()
}

#[test]
fn machine_detects_a_saver_that_loses_writes() {
    let operations = [Operation::Run(vec![Kind::Plain, Kind::Asks], None), Operation::Answer(0, None)];
    let broken = found(Fault::Forgets, &operations);
    assert!(broken.contains("ran again"), "{broken}");
}

#[test]
fn machine_detects_a_saver_without_fencing() {
    let stalls = |polls| Some(Death { polls, stalls: true });
    let broken = (0..30).filter_map(|polls| {
        let operations = [Operation::Run(vec![Kind::Plain, Kind::Asks], stalls(polls)), Operation::Wake];
        outcome(|savers| Machine::faulty(savers, Durability::Sync, Fault::TakesStale), &operations).err()
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.iter().any(|broken| broken.contains("a run that was taken over has")), "{broken:?}");
}

#[test]
fn machine_detects_a_saver_that_stores_sends_as_json() {
    // Not every zoo has what JSON cannot hold.
    let broken = found(Fault::SendsJson, &[Operation::Run(vec![Kind::Asks; 8], None), Operation::Answer(0, None)]);
    assert!(broken.contains("a Send has changed a value"), "{broken}");
}

#[test]
fn machine_detects_a_saver_that_loses_messages() {
    let operations = [Operation::Run(vec![Kind::Says(Talk::Clears), Kind::Asks], None), Operation::Answer(0, None)];
    let broken = found(Fault::LosesTalk, &operations);
    assert!(broken.contains("the conversation: "), "{broken}");
}
