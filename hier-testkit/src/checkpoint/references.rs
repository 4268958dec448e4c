//! Cases about commits that refer to earlier values. The saver must refuse a commit if such a value does not exist.

use std::fmt::Debug;

use uuid::Uuid;

use super::kit::ChannelChange::{Add, Set};
use super::kit::{Branch, CaseResult, cases, claim, get, has_values, ids, new_id, same, superseded, writes};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpointer, Lease, Prune, SaverError};

cases!(super::Case, "references":
    a_version_that_was_never_stored,
    a_base_that_was_never_stored,
    nothing_of_the_commit_is_stored,
    earlier_records_of_the_same_commit_count,
    later_records_of_the_same_commit_do_not_count,
    values_of_other_channels_namespaces_and_threads_do_not_count,
    a_run_cannot_build_on_pruned_values,
    values_that_outlived_their_checkpoint_count,
    a_checkpoint_that_is_replaced_keeps_its_values,
    a_lease_that_was_lost_is_found_first,
    values_of_a_refused_commit_do_not_count,
    values_older_than_a_deleted_parent_count,
);

/// Fails unless the error says that this version of this channel does not exist.
fn gone<T: Debug>(what: &str, result: &Result<T, SaverError>, wanted: (&str, Uuid)) -> CaseResult {
    match result {
        Err(SaverError::Gone { thread, channel, version }) => {
            same(what, &(thread.as_str(), channel.as_str(), *version), &("t", wanted.0, wanted.1))
        }
        other => Err(ContractViolation(format!("{what}: {other:?} instead of `Gone`"))),
    }
}

/// Creates a thread with one checkpoint that has a value of `x`.
async fn started_thread(saver: &Subject) -> Result<(Lease, Branch), ContractViolation> {
    let lease = claim(saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"1")])].into()).await?;
    Ok((lease, branch))
}

async fn a_version_that_was_never_stored(saver: Subject) -> CaseResult {
    let (lease, branch) = started_thread(&saver).await?;
    let mut other = branch.clone();
    let _lost = other.next(&[Set("y", b"2")]);
    let missing = other.tip()?.id;
    let refused = saver.commit(&lease, vec![other.next(&[Set("x", b"3")])].into()).await;
    gone("a commit with a version of `y`", &refused, ("y", missing))?;
    let first = branch.tip()?.id;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![first])?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1"])])
}

async fn a_base_that_was_never_stored(saver: Subject) -> CaseResult {
    let (lease, branch) = started_thread(&saver).await?;
    let mut other = branch.clone();
    let _lost = other.next(&[Add("x", b"2")]);
    let missing = other.tip()?.id;
    let refused = saver.commit(&lease, vec![other.next(&[Add("x", b"3")])].into()).await;
    gone("a commit that adds to `x`", &refused, ("x", missing))?;
    let first = branch.tip()?.id;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![first])
}

async fn nothing_of_the_commit_is_stored(saver: Subject) -> CaseResult {
    let (lease, mut branch) = started_thread(&saver).await?;
    let first = branch.tip()?.id;
    let mut other = branch.clone();
    let _lost = other.next(&[Set("x", b"2")]);
    let good = branch.next(&[Set("x", b"2")]);
    let done = writes("", first, new_id(), "a", &[(0, "x", b"1")]);
    let refused = saver.commit(&lease, vec![good, done, other.next(&[])].into()).await;
    gone("a commit whose last record does not fit", &refused, ("x", other_base(&other)?))?;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![first])?;
    same("the writes", &get(&saver, "t", "", Some(first)).await?.writes, &Vec::new())?;
    // The lease is still valid after the refusal.
    let mut branch = branch.fork(&get(&saver, "t", "", None).await?.checkpoint);
    saver.commit(&lease, vec![branch.next(&[Set("x", b"4")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"4"])])
}

/// Returns the version of `x` in the last checkpoint of a branch.
fn other_base(branch: &Branch) -> Result<Uuid, ContractViolation> {
    Ok(branch.tip()?.versions[0])
}

async fn earlier_records_of_the_same_commit_count(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let records = vec![branch.next(&[Set("x", b"1")]), branch.next(&[Add("x", b"2")]), branch.next(&[Set("y", b"3")])];
    saver.commit(&lease, records.into()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("x", &[b"1", b"2"]), ("y", &[b"3"])])
}

async fn later_records_of_the_same_commit_do_not_count(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let first = branch.next(&[Set("x", b"1")]);
    let base = branch.tip()?.id;
    let second = branch.next(&[Add("x", b"2")]);
    gone("a commit in the wrong order", &saver.commit(&lease, vec![second, first].into()).await, ("x", base))?;
    same("the latest", &saver.get("t", "", None).await?, &None)
}

async fn values_of_other_channels_namespaces_and_threads_do_not_count(saver: Subject) -> CaseResult {
    let (lease, branch) = started_thread(&saver).await?;
    let base = branch.tip()?.id;
    let other = claim(&saver, "other").await?;
    let mut elsewhere = Branch::root();
    saver.commit(&other, vec![elsewhere.next(&[Set("x", b"1")])].into()).await?;
    let mut inside = Branch { namespace: "sub".into(), ..branch.clone() };
    let refused = saver.commit(&lease, vec![inside.next(&[])].into()).await;
    gone("a value of another namespace", &refused, ("x", base))?;
    let foreign = elsewhere.tip()?.id;
    let refused = saver.commit(&lease, vec![elsewhere.next(&[])].into()).await;
    gone("a value of another thread", &refused, ("x", foreign))?;
    let mut branch = branch;
    let (mut checkpoint, pieces) = branch.next_checkpoint(&[]);
    checkpoint.channels = ["y".into()].into();
    let renamed = branch.record(checkpoint, pieces);
    gone("a value of another channel", &saver.commit(&lease, vec![renamed].into()).await, ("y", base))
}

/// A run of a replay, or of an answer to an earlier question, does not start at the latest checkpoint. In this case, a
/// prune deletes the checkpoint at which the run started.
async fn a_run_cannot_build_on_pruned_values(saver: Subject) -> CaseResult {
    let (lease, mut branch) = started_thread(&saver).await?;
    let mut stale = branch.clone();
    let old = branch.tip()?.id;
    saver.commit(&lease, vec![branch.next(&[Set("x", b"2")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    let done = stale.next(&[Add("x", b"3")]);
    let refused = saver.commit(&lease, vec![done].into()).await;
    gone("the next commit of the run", &refused, ("x", old))?;
    let latest = branch.tip()?.id;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![latest])?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"2"])])
}

async fn values_that_outlived_their_checkpoint_count(saver: Subject) -> CaseResult {
    let (lease, mut branch) = started_thread(&saver).await?;
    let mut other = branch.clone();
    saver.commit(&lease, vec![branch.next(&[Add("x", b"2")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    // The pruned checkpoint's value still exists, because the value of the latest checkpoint builds on it.
    saver.commit(&lease, vec![other.next(&[Add("x", b"3")])].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1", b"3"])])
}

async fn a_checkpoint_that_is_replaced_keeps_its_values(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let (checkpoint, pieces) = branch.next_checkpoint(&[Set("x", b"1")]);
    saver.commit(&lease, vec![branch.record(checkpoint.clone(), pieces)].into()).await?;
    saver.commit(&lease, vec![branch.record(checkpoint, Vec::new())].into()).await?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"1"])])
}

async fn a_lease_that_was_lost_is_found_first(saver: Subject) -> CaseResult {
    let (lease, branch) = started_thread(&saver).await?;
    claim(&saver, "t").await?;
    let mut other = branch.clone();
    let _lost = other.next(&[Set("x", b"2")]);
    superseded("a commit of the former holder", &saver.commit(&lease, vec![other.next(&[])].into()).await)
}

async fn values_of_a_refused_commit_do_not_count(saver: Subject) -> CaseResult {
    let (lease, mut branch) = started_thread(&saver).await?;
    let next = claim(&saver, "t").await?;
    let refused = saver.commit(&lease, vec![branch.next(&[Set("x", b"2")])].into()).await;
    superseded("a commit of the former holder", &refused)?;
    let missing = branch.tip()?.id;
    let refused = saver.commit(&next, vec![branch.next(&[])].into()).await;
    gone("a commit that follows the refused one", &refused, ("x", missing))
}

/// The parent of the commit was deleted with its run. The commit refers to values of earlier checkpoints, which still
/// exist.
async fn values_older_than_a_deleted_parent_count(saver: Subject) -> CaseResult {
    let (lease, branch) = started_thread(&saver).await?;
    let mut branch = branch.of_run("deleted");
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    saver.admin()?.delete_for_runs(&["deleted".to_owned()]).await?;
    // The deletion has ended the lease.
    let lease = claim(&saver, "t").await?;
    let mut branch = branch.of_run("next");
    saver.commit(&lease, vec![branch.next(&[Set("y", b"2")])].into()).await?;
    has_values("the values", &get(&saver, "t", "", None).await?, &[("x", &[b"1"]), ("y", &[b"2"])])
}
