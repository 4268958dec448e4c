//! Random calls.

use std::time::Duration;

use hier_core::checkpoint::{Strategy as Keeping, WhenRunning};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

pub(crate) const THREADS: [&str; 6] =
    ["a", "b", "a/background/x", "a/background/x/background/y", "n\0\\'", "n\0\\'/background/z"];
pub(crate) const NAMESPACES: [&str; 4] = ["", "sub", "sub|inner", "call:1"];
pub(crate) const CHANNELS: [&str; 3] = ["log", "n\0\\", "x"];
pub(crate) const GRAPHS: [&str; 2] = ["g", "h\0"];
pub(crate) const RUNS: [u128; 3] = [1, 2, 3];
/// In seconds since 1970: two in the past, one in the future.
pub(crate) const TIMES: [u64; 3] = [1_000_000_000, 1_000_000_001, 4_000_000_000];
/// The time of the first checkpoint, in seconds since 1970. The checkpoints are a minute apart.
pub(crate) const FIRST: u64 = 1_700_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Acquire { thread: &'static str, when_running: WhenRunning, lives: Option<Duration> },
    Renew(usize),
    Release(usize),
    Commit { lease: usize, entries: Vec<Entry>, taken: Vec<u128>, due: Option<Due>, run: Option<u128>, release: bool },
    Get { thread: &'static str, namespace: &'static str, latest: bool, which: usize },
    List { thread: Option<&'static str>, namespace: Option<&'static str>, before: Option<usize>, limit: Option<usize> },
    Filter(u128),
    Threads(Option<usize>),
    Copy(&'static str, &'static str),
    Delete(&'static str),
    DeleteForRuns(Vec<u128>),
    Prune { threads: Option<Vec<&'static str>>, strategy: Keeping, older_than: Option<u64> },
    Sweep,
    Post { thread: &'static str, message: u128, graph: &'static str },
    Messages(&'static str),
    Due { graphs: Vec<&'static str>, by: u64 },
}

#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Checkpoint { namespace: &'static str, parent: usize, replaces: bool, changes: Vec<(usize, Change)>, run: u128 },
    Writes { namespace: &'static str, checkpoint: usize, task: u128, slot: i32, value: u8 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Set(u8),
    Add(u8),
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    NoLaterThan(u64, &'static str),
    Exactly(Option<u64>, &'static str, bool),
    Driven(u64, &'static str),
    Postponed(u64),
}

fn thread() -> impl Strategy<Value = &'static str> {
    select(&THREADS[..])
}

fn entry() -> impl Strategy<Value = Entry> {
    let change = prop_oneof![
        3 => any::<u8>().prop_map(Change::Set),
        3 => any::<u8>().prop_map(Change::Add),
        1 => Just(Change::Drop)
    ];
    let changes = proptest::collection::vec((0..CHANNELS.len(), change), 0..3);
    let namespace = || select(&NAMESPACES[..]);
    let replaces = proptest::bool::weighted(0.1);
    let run = || select(&RUNS[..]);
    prop_oneof![
        3 => (namespace(), any::<usize>(), replaces, changes, run()).prop_map(
            |(namespace, parent, replaces, changes, run)| Entry::Checkpoint { namespace, parent, replaces, changes, run }
        ),
        1 => (namespace(), any::<usize>(), select(&RUNS[..]), select(&[-3, -1, 0, 1][..]), any::<u8>()).prop_map(
            |(namespace, checkpoint, task, slot, value)| Entry::Writes { namespace, checkpoint, task, slot, value }
        ),
    ]
}

fn due() -> impl Strategy<Value = Due> {
    let (time, graph) = (|| select(&TIMES[..]), || select(&GRAPHS[..]));
    prop_oneof![
        (time(), graph()).prop_map(|(at, graph)| Due::NoLaterThan(at, graph)),
        (proptest::option::of(time()), graph(), any::<bool>())
            .prop_map(|(at, graph, all)| Due::Exactly(at, graph, all)),
        (time(), graph()).prop_map(|(at, graph)| Due::Driven(at, graph)),
        time().prop_map(Due::Postponed),
    ]
}

pub(crate) fn call() -> impl Strategy<Value = Operation> {
    let few = || proptest::option::of(0..4_usize);
    let lives = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Duration::ZERO)),
        1 => Just(Some(Duration::from_hours(1)))
    ];
    let when = prop_oneof![Just(WhenRunning::TakeOver), Just(WhenRunning::Reject)];
    let taken = proptest::collection::vec(1..5_u128, 0..3);
    let taken = prop_oneof![3 => Just(Vec::new()), 1 => taken];
    let run = proptest::option::weighted(0.2, select(&RUNS[..]));
    let entries = proptest::collection::vec(entry(), 0..4);
    let due = proptest::option::weighted(0.2, due());
    let commit = (0..3_usize, entries, taken, due, run, proptest::bool::weighted(0.2));
    let some = || proptest::collection::vec(thread(), 0..3);
    let strategy = prop_oneof![Just(Keeping::KeepLatest), (0..3_usize).prop_map(Keeping::Keep), Just(Keeping::Delete)];
    let namespace = || select(&NAMESPACES[..]);
    let graphs = proptest::collection::vec(select(&GRAPHS[..]), 0..3);
    prop_oneof![
        4 => (thread(), when, lives)
            .prop_map(|(thread, when_running, lives)| Operation::Acquire { thread, when_running, lives }),
        1 => (0..3_usize).prop_map(Operation::Renew),
        1 => (0..3_usize).prop_map(Operation::Release),
        9 => commit.prop_map(|(lease, entries, taken, due, run, release)| {
            Operation::Commit { lease, entries, taken, due, run, release }
        }),
        2 => (thread(), namespace(), any::<bool>(), any::<usize>())
            .prop_map(|(thread, namespace, latest, which)| Operation::Get { thread, namespace, latest, which }),
        2 => (proptest::option::of(thread()), proptest::option::of(namespace()), few(), few()).prop_map(
            |(thread, namespace, before, limit)| Operation::List { thread, namespace, before, limit }
        ),
        1 => select(&RUNS[..]).prop_map(Operation::Filter),
        1 => few().prop_map(Operation::Threads),
        2 => (thread(), thread()).prop_map(|(from, to)| Operation::Copy(from, to)),
        1 => thread().prop_map(Operation::Delete),
        1 => proptest::collection::vec(select(&RUNS[..]), 0..3).prop_map(Operation::DeleteForRuns),
        2 => (proptest::option::of(some()), strategy, proptest::option::of(0..10_u64))
            .prop_map(|(threads, strategy, older_than)| Operation::Prune { threads, strategy, older_than }),
        1 => Just(Operation::Sweep),
        3 => (thread(), 1..5_u128, select(&GRAPHS[..]))
            .prop_map(|(thread, message, graph)| Operation::Post { thread, message, graph }),
        1 => thread().prop_map(Operation::Messages),
        1 => (graphs, select(&TIMES[..])).prop_map(|(graphs, by)| Operation::Due { graphs, by }),
    ]
}
