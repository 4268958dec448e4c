//! Cases about channels that are stored as a chain of deltas.

use std::sync::Arc;

use super::Subject;
use super::kit::ChannelChange::{Add, Drop, Set};
use super::kit::{Branch, CaseResult, LONG_AGO, cases, claim, get, has_values, holds, ids, new_id, same, some, writes};
use hier_core::checkpoint::{Checkpointer, Prune, Strategy};

cases!(super::Case, "chains":
    deltas_are_read_in_order,
    each_checkpoint_has_the_deltas_up_to_it,
    parts_may_be_short_and_long,
    a_whole_value_starts_a_new_chain,
    forks_have_their_own_deltas,
    forks_of_forks_stay_apart,
    chains_in_namespaces_do_not_mix,
    chains_survive_a_prune,
    chains_survive_a_prune_of_the_branch_they_started_on,
    chains_survive_a_copy,
    chains_survive_the_deletion_of_runs,
    a_dropped_chain_can_start_again,
    known_values_may_be_omitted,
);

async fn deltas_are_read_in_order(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0"), Set("x", b"x")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"1")])].into()).await?;
    // This checkpoint adds nothing to the chain.
    saver.commit(&lease, vec![branch.next(&[Set("x", b"y")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"2")]), branch.next(&[Add("log", b"")])].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("log", &[b"0", b"1", b"2", b""]), ("x", &[b"y"])])
}

async fn each_checkpoint_has_the_deltas_up_to_it(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", &[0])])].into()).await?;
    for number in 1..100_u8 {
        saver.commit(&lease, vec![branch.next(&[Add("log", &[number])])].into()).await?;
    }
    let all = ids(&saver, "t", "").await?;
    same("the number of checkpoints", &all.len(), &100)?;
    let numbers: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
    for (place, id) in all.iter().rev().enumerate() {
        let parts: Vec<&[u8]> = numbers[..=place].iter().map(<[u8; 1]>::as_slice).collect();
        has_values("the value", &get(&saver, "t", "", Some(*id)).await?, &[("log", &parts)])?;
    }
    Ok(())
}

/// A saver may store short and long parts differently.
async fn parts_may_be_short_and_long(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let lengths = [3, 9_000, 0, 70_000, 20, 9_000, 9_000, 9_000, 9_000, 9_000, 9_000, 1_000_000, 1];
    let wanted: Vec<Vec<u8>> = (1..).zip(lengths).map(|(number, length)| vec![number; length]).collect();
    for (place, part) in wanted.iter().enumerate() {
        let change = if place == 0 { Set("log", part) } else { Add("log", part) };
        saver.commit(&lease, vec![branch.next(&[change])].into()).await?;
        let parts: Vec<&[u8]> = wanted[..=place].iter().map(Vec::as_slice).collect();
        has_values("the value", &get(&saver, "t", "", None).await?, &[("log", &parts)])?;
    }
    Ok(())
}

async fn a_whole_value_starts_a_new_chain(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    for change in [Set("log", b"0"), Add("log", b"1"), Set("log", b"01"), Add("log", b"2")] {
        saver.commit(&lease, vec![branch.next(&[change])].into()).await?;
    }
    has_values("the value", &get(&saver, "t", "", None).await?, &[("log", &[b"01", b"2"])])
}

async fn forks_have_their_own_deltas(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0")]), branch.next(&[Add("log", b"1")])].into()).await?;
    let mut fork = branch.fork(branch.tip()?);
    saver.commit(&lease, vec![branch.next(&[Add("log", b"main")])].into()).await?;
    saver.commit(&lease, vec![fork.next(&[Add("log", b"fork")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"main 2")])].into()).await?;
    let main = get(&saver, "t", "", Some(branch.tip()?.id)).await?;
    has_values("the main line", &main, &[("log", &[b"0", b"1", b"main", b"main 2"])])?;
    let forked = get(&saver, "t", "", Some(fork.tip()?.id)).await?;
    has_values("the fork", &forked, &[("log", &[b"0", b"1", b"fork"])])
}

async fn forks_of_forks_stay_apart(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0")])].into()).await?;
    let mut tips = vec![(branch, vec![b"0".to_vec()])];
    for depth in 1..6_u8 {
        let mut next = Vec::new();
        for (branch, parts) in &tips {
            for side in [b'l', b'r'] {
                let mut fork = branch.fork(branch.tip()?);
                let part = vec![side, depth];
                saver.commit(&lease, vec![fork.next(&[Add("log", &part)])].into()).await?;
                next.push((fork, parts.iter().cloned().chain([part]).collect()));
            }
        }
        tips = next;
    }
    for (branch, parts) in tips {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        has_values("a leaf", &get(&saver, "t", "", Some(branch.tip()?.id)).await?, &[("log", &parts)])?;
    }
    Ok(())
}

async fn chains_in_namespaces_do_not_mix(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut root = Branch::root();
    saver.commit(&lease, vec![root.next(&[Set("log", b"root")])].into()).await?;
    let mut child = Branch::within("child");
    child.tip.clone_from(&root.tip);
    // A checkpoint with the same id in another namespace is another checkpoint.
    let (mut checkpoint, mut pieces) = root.fork(root.tip()?).next_checkpoint(&[Set("log", b"child")]);
    checkpoint.id = root.tip()?.id;
    checkpoint.versions = [checkpoint.id].into();
    pieces.truncate(1);
    saver.commit(&lease, vec![child.record(checkpoint, pieces)].into()).await?;
    saver.commit(&lease, vec![child.next(&[Add("log", b"1")]), root.next(&[Add("log", b"2")])].into()).await?;
    has_values("the root's", &get(&saver, "t", "", None).await?, &[("log", &[b"root", b"2"])])?;
    has_values("the child's", &get(&saver, "t", "child", None).await?, &[("log", &[b"child", b"1"])])
}

async fn chains_survive_a_prune(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0"), Set("x", b"x")])].into()).await?;
    for part in [b"1", b"2", b"3"] {
        saver.commit(&lease, vec![branch.next(&[Add("log", part)])].into()).await?;
    }
    let pruned = saver.admin()?.prune(Prune::default()).await?;
    same("the number of those pruned", &pruned, &3)?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the value", &found, &[("log", &[b"0", b"1", b"2", b"3"]), ("x", &[b"x"])])?;
    // A later run builds on the pruned chain.
    saver.commit(&lease, vec![branch.next(&[Add("log", b"4")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the value", &found, &[("log", &[b"0", b"1", b"2", b"3", b"4"]), ("x", &[b"x"])])
}

async fn chains_survive_a_prune_of_the_branch_they_started_on(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().aged(LONG_AGO);
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0")]), branch.next(&[Add("log", b"1")])].into()).await?;
    let mut fork = branch.fork(branch.tip()?).aged(std::time::Duration::ZERO);
    saver.commit(&lease, vec![branch.next(&[Add("log", b"main")]), branch.next(&[Set("log", b"main")])].into()).await?;
    saver.commit(&lease, vec![fork.next(&[Add("log", b"fork")])].into()).await?;
    let old = Prune { older_than: Some(LONG_AGO / 2), ..Prune::default() };
    same("the number of those pruned", &saver.admin()?.prune(old).await?, &4)?;
    has_values("the fork", &get(&saver, "t", "", None).await?, &[("log", &[b"0", b"1", b"fork"])])
}

async fn chains_survive_a_copy(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0")]), branch.next(&[Add("log", b"1")])].into()).await?;
    saver.admin()?.prune(Prune { strategy: Strategy::Keep(1), ..Prune::default() }).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    saver.delete_thread("t").await?;
    has_values("the copy", &get(&saver, "copy", "", None).await?, &[("log", &[b"0", b"1"])])?;
    let lease = claim(&saver, "copy").await?;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"2")])].into()).await?;
    has_values("the copy", &get(&saver, "copy", "", None).await?, &[("log", &[b"0", b"1", b"2"])])
}

async fn chains_survive_the_deletion_of_runs(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().of_run("one");
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0"), Set("x", b"x")])].into()).await?;
    let mut branch = branch.of_run("two");
    saver.commit(&lease, vec![branch.next(&[Add("log", b"1")])].into()).await?;
    let mut branch = branch.of_run("three");
    saver.commit(&lease, vec![branch.next(&[Add("log", b"2")])].into()).await?;
    saver.admin()?.delete_for_runs(&["one".to_owned(), "two".to_owned()]).await?;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![branch.tip()?.id])?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("log", &[b"0", b"1", b"2"]), ("x", &[b"x"])])
}

async fn a_dropped_chain_can_start_again(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let changes = [Set("log", b"0"), Add("log", b"1"), Drop("log"), Set("log", b"new"), Add("log", b"2")];
    for change in changes {
        saver.commit(&lease, vec![branch.next(&[change])].into()).await?;
    }
    has_values("the value", &get(&saver, "t", "", None).await?, &[("log", &[b"new", b"2"])])
}

/// A saver may omit only values that the caller already has.
async fn known_values_may_be_omitted(saver: Subject) -> CaseResult {
    let Some(cache) = saver.capabilities().cache else { return Ok(()) };
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("log", b"0"), Set("x", b"x")])].into()).await?;
    let first = branch.tip()?.id;
    saver.commit(&lease, vec![branch.next(&[Add("log", b"1")])].into()).await?;
    let last = branch.tip()?.id;
    saver.commit(&lease, vec![writes("", last, new_id(), "a", &[(0, "x", b"pending")])].into()).await?;
    let whole = get(&saver, "t", "", None).await?;
    let none: &[&str] = &[];
    for (known, may_miss) in [
        (vec![], none),
        (vec![("log", last)], &["log"]),
        (vec![("x", first)], &["x"]),
        (vec![("x", first), ("log", last)], &["log", "x"]),
        // The saver must not omit values for older versions or for other channels.
        (vec![("log", first), ("x", last), ("other", last)], none),
    ] {
        let known: Vec<_> = known.into_iter().map(|(name, version)| (Arc::from(name), version)).collect();
        for id in [None, Some(last)] {
            let found = some("the checkpoint", cache.get_changed("t", "", id, &known).await?)?;
            same("the checkpoint", &found.checkpoint, &whole.checkpoint)?;
            same("the writes", &found.writes, &whole.writes)?;
            for (channel, chain) in &whole.values {
                let name = &*whole.checkpoint.channels[*channel];
                match found.values.iter().find(|(other, _)| other == channel) {
                    Some((_, found)) => same(name, found, chain)?,
                    None => holds(&format!("`{name}` is known, or read"), may_miss.contains(&name))?,
                }
            }
            holds("nothing else is read", found.values.len() <= whole.values.len())?;
        }
    }
    same(
        "changes of a missing checkpoint",
        &cache.get_changed("other", "", None, &[("log".into(), last)]).await?,
        &None,
    )
}
