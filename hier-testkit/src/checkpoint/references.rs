//! Values that a commit builds on: they are there, or the commit is refused.

use std::fmt::Debug;

use uuid::Uuid;

use super::kit::Change::{Add, Set};
use super::kit::{Line, Outcome, cases, claim, get, has_values, ids, new_id, same, superseded, writes};
use super::{Failure, Subject};
use hier_core::checkpoint::{Checkpointer, Lease, Prune, SaverError, WriteRecord};

cases!(super::Case, "references":
    a_version_that_was_never_stored,
    a_base_that_was_never_stored,
    nothing_of_the_commit_is_stored,
    what_the_same_commit_brings_first_counts,
    what_a_later_record_brings_does_not_count,
    values_of_other_channels_namespaces_and_threads_do_not_count,
    a_run_that_goes_on_from_what_was_pruned,
    what_outlived_its_checkpoint_counts,
    a_checkpoint_that_is_replaced_keeps_its_values,
    a_lease_that_was_lost_is_found_first,
    what_a_refused_commit_brought_does_not_count,
    what_a_deleted_parent_did_not_bring_counts,
);

/// Fails unless the commit was refused since this version of this channel is not there.
fn gone<T: Debug>(what: &str, result: &Result<T, SaverError>, wanted: (&str, Uuid)) -> Outcome {
    match result {
        Err(SaverError::Gone { thread, channel, version }) => {
            same(what, &(thread.as_str(), channel.as_str(), *version), &("t", wanted.0, wanted.1))
        }
        other => Err(Failure(format!("{what}: {other:?} instead of `Gone`"))),
    }
}

/// A thread with one checkpoint, in which `x` has a value, and the line that goes on from there.
async fn begun(saver: &Subject) -> Result<(Lease, Line), Failure> {
    let lease = claim(saver, "t").await?;
    let mut line = Line::root();
    saver.commit(&lease, vec![line.next(&[Set("x", b"1")])].into()).await?;
    Ok((lease, line))
}

async fn a_version_that_was_never_stored(saver: Subject) -> Outcome {
    let (lease, line) = begun(&saver).await?;
    let mut other = line.clone();
    let _lost = other.next(&[Set("y", b"2")]);
    let missing = other.tip()?.id;
    let refused = saver.commit(&lease, vec![other.next(&[Set("x", b"3")])].into()).await;
    gone("a commit with a version of `y`", &refused, ("y", missing))?;
    let first = line.tip()?.id;
    same("what is there", &ids(&saver, "t", "").await?, &vec![first])?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1"])])
}

async fn a_base_that_was_never_stored(saver: Subject) -> Outcome {
    let (lease, line) = begun(&saver).await?;
    let mut other = line.clone();
    let _lost = other.next(&[Add("x", b"2")]);
    let missing = other.tip()?.id;
    let refused = saver.commit(&lease, vec![other.next(&[Add("x", b"3")])].into()).await;
    gone("a commit that adds to `x`", &refused, ("x", missing))?;
    let first = line.tip()?.id;
    same("what is there", &ids(&saver, "t", "").await?, &vec![first])
}

async fn nothing_of_the_commit_is_stored(saver: Subject) -> Outcome {
    let (lease, mut line) = begun(&saver).await?;
    let first = line.tip()?.id;
    let mut other = line.clone();
    let _lost = other.next(&[Set("x", b"2")]);
    let good = line.next(&[Set("x", b"2")]);
    let done = writes("", first, new_id(), "a", &[(0, "x", b"1")]);
    let refused = saver.commit(&lease, vec![good, done, other.next(&[])].into()).await;
    gone("a commit of which the last record does not fit", &refused, ("x", other_base(&other)?))?;
    same("what is there", &ids(&saver, "t", "").await?, &vec![first])?;
    same("the writes", &get(&saver, "t", "", Some(first)).await?.writes, &Vec::new())?;
    // The thread goes on.
    let mut line = line.fork(&get(&saver, "t", "", None).await?.checkpoint);
    saver.commit(&lease, vec![line.next(&[Set("x", b"4")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"4"])])
}

/// The version of `x` that the last checkpoint of a line names.
fn other_base(line: &Line) -> Result<Uuid, Failure> {
    Ok(line.tip()?.versions[0])
}

async fn what_the_same_commit_brings_first_counts(saver: Subject) -> Outcome {
    let lease = claim(&saver, "t").await?;
    let mut line = Line::root();
    let records = vec![line.next(&[Set("x", b"1")]), line.next(&[Add("x", b"2")]), line.next(&[Set("y", b"3")])];
    saver.commit(&lease, records.into()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("x", &[b"1", b"2"]), ("y", &[b"3"])])
}

async fn what_a_later_record_brings_does_not_count(saver: Subject) -> Outcome {
    let lease = claim(&saver, "t").await?;
    let mut line = Line::root();
    let first = line.next(&[Set("x", b"1")]);
    let base = line.tip()?.id;
    let second = line.next(&[Add("x", b"2")]);
    gone("a commit in the wrong order", &saver.commit(&lease, vec![second, first].into()).await, ("x", base))?;
    same("the latest", &saver.get("t", "", None).await?, &None)
}

async fn values_of_other_channels_namespaces_and_threads_do_not_count(saver: Subject) -> Outcome {
    let (lease, line) = begun(&saver).await?;
    let base = line.tip()?.id;
    let other = claim(&saver, "other").await?;
    let mut elsewhere = Line::root();
    saver.commit(&other, vec![elsewhere.next(&[Set("x", b"1")])].into()).await?;
    let mut inside = Line { namespace: "sub".into(), ..line.clone() };
    let refused = saver.commit(&lease, vec![inside.next(&[])].into()).await;
    gone("a value of another namespace", &refused, ("x", base))?;
    let foreign = elsewhere.tip()?.id;
    let refused = saver.commit(&lease, vec![elsewhere.next(&[])].into()).await;
    gone("a value of another thread", &refused, ("x", foreign))?;
    let mut line = line;
    let WriteRecord::Checkpoint { namespace, mut checkpoint, pieces } = line.next(&[]) else { return Ok(()) };
    checkpoint.channels = ["y".into()].into();
    let renamed = WriteRecord::Checkpoint { namespace, checkpoint, pieces };
    gone("a value of another channel", &saver.commit(&lease, vec![renamed].into()).await, ("y", base))
}

/// A replay, or the answer to a question of the past: what it goes on from is not the latest, and a prune takes it.
async fn a_run_that_goes_on_from_what_was_pruned(saver: Subject) -> Outcome {
    let (lease, mut line) = begun(&saver).await?;
    let mut branch = line.clone();
    let old = line.tip()?.id;
    saver.commit(&lease, vec![line.next(&[Set("x", b"2")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    let done = branch.next(&[Add("x", b"3")]);
    let refused = saver.commit(&lease, vec![done].into()).await;
    gone("the next commit of the run", &refused, ("x", old))?;
    let latest = line.tip()?.id;
    same("what is there", &ids(&saver, "t", "").await?, &vec![latest])?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"2"])])
}

async fn what_outlived_its_checkpoint_counts(saver: Subject) -> Outcome {
    let (lease, mut line) = begun(&saver).await?;
    let mut branch = line.clone();
    saver.commit(&lease, vec![line.next(&[Add("x", b"2")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    // The first value is what the second was added to.
    saver.commit(&lease, vec![branch.next(&[Add("x", b"3")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1", b"3"])])
}

async fn a_checkpoint_that_is_replaced_keeps_its_values(saver: Subject) -> Outcome {
    let lease = claim(&saver, "t").await?;
    let mut line = Line::root();
    let first = line.next(&[Set("x", b"1")]);
    saver.commit(&lease, vec![first.clone()].into()).await?;
    let WriteRecord::Checkpoint { namespace, checkpoint, .. } = first else { return Ok(()) };
    saver.commit(&lease, vec![WriteRecord::Checkpoint { namespace, checkpoint, pieces: Vec::new() }].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1"])])
}

async fn a_lease_that_was_lost_is_found_first(saver: Subject) -> Outcome {
    let (lease, line) = begun(&saver).await?;
    claim(&saver, "t").await?;
    let mut other = line.clone();
    let _lost = other.next(&[Set("x", b"2")]);
    superseded("a commit of the former holder", &saver.commit(&lease, vec![other.next(&[])].into()).await)
}

async fn what_a_refused_commit_brought_does_not_count(saver: Subject) -> Outcome {
    let (lease, mut line) = begun(&saver).await?;
    let next = claim(&saver, "t").await?;
    let refused = saver.commit(&lease, vec![line.next(&[Set("x", b"2")])].into()).await;
    superseded("a commit of the former holder", &refused)?;
    let missing = line.tip()?.id;
    let refused = saver.commit(&next, vec![line.next(&[])].into()).await;
    gone("a commit that follows the refused one", &refused, ("x", missing))
}

/// The checkpoint that a commit follows was deleted with a run; what it names was brought by those before it, which are there.
async fn what_a_deleted_parent_did_not_bring_counts(saver: Subject) -> Outcome {
    let (lease, line) = begun(&saver).await?;
    let mut line = line.of_run("deleted");
    saver.commit(&lease, vec![line.next(&[])].into()).await?;
    saver.admin()?.delete_for_runs(&["deleted".to_owned()]).await?;
    // That has ended the lease.
    let lease = claim(&saver, "t").await?;
    let mut line = line.of_run("next");
    saver.commit(&lease, vec![line.next(&[Set("y", b"2")])].into()).await?;
    has_values("the values", &get(&saver, "t", "", None).await?, &[("x", &[b"1"]), ("y", &[b"2"])])
}
