//! Values without a checkpoint, and work that continues past what cannot be read.

use std::sync::Arc;

use hier_checkpoint::backend::retention::{PieceKey, Unread, unneeded};
use hier_checkpoint::checkpoint::{Checkpoint, Deletion, Prune, SaverError, Source, Strategy, is_per_call};
use uuid::Uuid;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn piece(channel: &str, version: u128, base: Option<u128>) -> PieceKey {
    (channel.into(), id(version), base.map(id))
}

/// A checkpoint of the channels `x` and `y` with these versions.
fn checkpoint(versions: [u128; 2]) -> Checkpoint {
    let channels: Arc<[Arc<str>]> = Arc::from(["x".into(), "y".into()]);
    Checkpoint { versions: versions.map(id).into(), ..Checkpoint::new(id(9), 0, Source::Loop, channels) }
}

#[test]
fn values_that_a_checkpoint_builds_on_are_needed() {
    let pieces = [
        piece("x", 1, None),
        piece("x", 2, Some(1)),
        piece("x", 3, Some(2)),
        piece("x", 4, Some(2)),
        piece("y", 1, None),
        piece("y", 3, None),
    ];
    // `x` 3 adds to 2, and that to 1. `y` has no value.
    let left = unneeded([&checkpoint([3, 0])], &pieces);
    assert_eq!(left, [("x".into(), id(4)), ("y".into(), id(1)), ("y".into(), id(3))]);
    assert_eq!(unneeded([&checkpoint([4, 1]), &checkpoint([3, 3])], &pieces), []);
    assert_eq!(unneeded([], &pieces[..1]), [("x".into(), id(1))]);
}

#[test]
fn namespaces_of_calls_have_the_id_of_the_task() {
    assert!(is_per_call("node:task") && is_per_call("outer|node:task") && !is_per_call("node") && !is_per_call(""));
}

#[test]
fn a_deletion_knows_its_checkpoints() {
    let (root, first): (Arc<str>, _) = ("".into(), checkpoint([1, 0]));
    let second = Checkpoint { id: id(8), ..first.clone() };
    let all = [(&root, &first), (&root, &second)];
    let deleted = |strategy| {
        let prune = Prune { strategy, ..Prune::default() };
        Deletion::by_prune(all, &prune, std::time::SystemTime::now())
    };
    let nothing = deleted(Strategy::Keep(2));
    assert!(nothing.is_empty() && !nothing.has(&root, first.id) && !nothing.ends_lease);
    let older = deleted(Strategy::KeepLatest);
    assert!(!older.is_empty() && older.has(&root, second.id) && !older.has(&root, first.id) && !older.ends_lease);
    let every = deleted(Strategy::Delete);
    assert!(every.has(&root, first.id) && every.has(&root, second.id) && every.ends_lease);
}

#[test]
fn checkpoints_of_deleted_runs_are_deleted() {
    let root: Arc<str> = "".into();
    let of = |number, run: &str| {
        let metadata = serde_json::Map::from_iter([("run_id".to_owned(), run.into())]);
        Checkpoint { id: id(number), metadata: Arc::new(metadata), ..checkpoint([1, 0]) }
    };
    let (latest, earlier) = (of(2, "a"), of(1, "b"));
    let all = [(&root, &latest), (&root, &earlier)];
    let deleted = |run: &str| Deletion::by_runs(all, &[run.to_owned()]);
    assert!(deleted("c").is_empty());
    let (first, second) = (deleted("a"), deleted("b"));
    assert!(first.has(&root, latest.id) && !first.has(&root, earlier.id) && first.ends_lease);
    assert!(second.has(&root, earlier.id) && !second.has(&root, latest.id) && !second.ends_lease);
}

pub(crate) fn damaged<T>(thread: &str) -> Result<T, SaverError> {
    Err(SaverError::Damaged { thread: thread.to_owned(), reason: "bad bytes".to_owned() })
}

pub(crate) fn text<T: std::fmt::Debug>(result: Result<T, SaverError>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn unreadable_threads_are_reported_after_the_others() {
    let mut unread = Unread::default();
    assert_eq!(unread.pass(Ok(7)).expect("a result"), 7);
    assert!(unread.report().is_ok(), "all threads were read");
    let mut unread = Unread::default();
    assert_eq!(unread.pass::<usize>(damaged("a")).expect("skipped"), 0);
    let other = unread.pass::<usize>(Err(SaverError::Unusable { place: "file".to_owned(), reason: "gone".to_owned() }));
    assert_eq!(text(other), "file cannot be used: gone", "any other error ends the work");
    let one = "the stored data of thread `a` cannot be read: bad bytes (the other threads were processed)";
    assert_eq!(text(unread.report()), one);
    let mut unread = Unread::default();
    for thread in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        unread.pass::<()>(damaged(thread)).expect("skipped");
    }
    let many = text(unread.report());
    assert!(many.contains("bad bytes; 11 more threads cannot be read either: `b`, `c`"), "{many}");
    assert!(many.contains(", `k` (the other threads were processed)"), "{many}");
}

/// A rollback of the latest run returns to these checkpoints.
#[test]
fn prune_of_an_unfinished_graph_keeps_the_state_before_the_latest_run_in_each_namespace() {
    let (root, inner): (Arc<str>, Arc<str>) = ("".into(), "inner".into());
    let of_run = |number, run: &str| {
        let mut checkpoint = Checkpoint { id: id(number), ..checkpoint([1, 0]) };
        checkpoint.metadata = Arc::new([("run_id".to_owned(), run.into())].into_iter().collect());
        checkpoint.agenda.start = true;
        checkpoint
    };
    let [latest, outer, before, older, first] =
        [(9, "c"), (8, "b"), (7, "b"), (6, "b"), (5, "a")].map(|(number, run)| of_run(number, run));
    let all = [(&inner, &latest), (&root, &outer), (&inner, &before), (&inner, &older), (&root, &first)];
    let deletion = Deletion::by_prune(all, &Prune::default(), std::time::SystemTime::now());
    let deleted = all.map(|(namespace, checkpoint)| deletion.has(namespace, checkpoint.id));
    assert_eq!(deleted, [false, false, false, true, true]);
}
