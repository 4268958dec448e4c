//! Cases about commits of checkpoints with whole values.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;

use super::kit::ChannelChange::{Drop, Set};
use super::kit::{Branch, CaseResult, cases, claim, get, has_values, holds, ids, new_id, same, writes};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{
    ChannelBlob, Checkpoint, Checkpointer, JoinRecord, LastRan, SaverError, SendRecord, Source,
};

cases!(super::Case, "put":
    an_unknown_thread_or_checkpoint_is_none,
    a_checkpoint_is_read_back_unchanged,
    values_are_any_bytes,
    the_latest_is_the_one_with_the_greatest_id,
    every_checkpoint_stays_readable,
    unchanged_channels_load_from_earlier_checkpoints,
    a_dropped_channel_does_not_reappear,
    a_channel_may_come_later_and_in_another_order,
    namespaces_are_separate,
    threads_are_separate,
    the_same_id_replaces,
    a_commit_of_several_records_is_one,
    an_invalid_commit_stores_nothing,
    an_empty_commit_is_accepted,
    commits_keep_the_order_of_their_calls,
    commits_of_many_threads_at_once,
);

async fn an_unknown_thread_or_checkpoint_is_none(saver: Subject) -> CaseResult {
    same("the latest of an unknown thread", &saver.get("t", "", None).await?, &None)?;
    let lease = claim(&saver, "t").await?;
    same("the latest of a thread that was only claimed", &saver.get("t", "", None).await?, &None)?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    same("an unknown id", &saver.get("t", "", Some(new_id())).await?, &None)?;
    same("an unknown namespace", &saver.get("t", "child", None).await?, &None)?;
    same("a nil id", &saver.get("t", "", Some(uuid::Uuid::nil())).await?, &None)
}

async fn a_checkpoint_is_read_back_unchanged(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::within("a:1|b").called_from(new_id());
    branch.parents.insert("a:1".to_owned(), new_id());
    for (key, value) in [("text", json!("ü")), ("number", json!(1.5)), ("list", json!([null, true, {"deep": [-1]}]))] {
        branch.metadata.insert(key.to_owned(), value);
    }
    let first = branch.next(&[Set("x", b"1")]);
    saver.commit(&lease, vec![first].into()).await?;
    let (mut checkpoint, pieces) = branch.next_checkpoint(&[Set("y", b"2")]);
    checkpoint.source = Source::Fork;
    checkpoint.step = i64::MAX;
    let agenda = &mut checkpoint.agenda;
    agenda.start = true;
    agenda.ready = ["a", "b", "c"].map(Arc::from).into_iter().collect();
    agenda.sends = vec![SendRecord::new("worker", vec![0, 255, 1])];
    agenda.waiting = vec![Arc::from("late")];
    agenda.released = vec![Arc::from("later")];
    agenda.joins = vec![JoinRecord::new("join:a+b:c", vec![Arc::from("a")], true)];
    agenda.tied = vec![Arc::from("b")];
    agenda.last = LastRan::Among(vec![Arc::from("a"), Arc::from("b")]);
    agenda.kept = Some(Arc::new([(Arc::from("desk"), new_id())].into()));
    let wanted = checkpoint.as_ref().clone();
    saver.commit(&lease, vec![branch.record(checkpoint, pieces)].into()).await?;
    for id in [None, Some(wanted.id)] {
        let found = get(&saver, "t", "a:1|b", id).await?;
        same("the checkpoint", &found.checkpoint, &wanted)?;
        has_values("the values", &found, &[("x", &[b"1"]), ("y", &[b"2"])])?;
        holds("a new checkpoint has no writes", found.writes.is_empty())?;
    }
    Ok(())
}

async fn values_are_any_bytes(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let every: Vec<u8> = (0..=255).collect();
    let long = every.repeat(4_000);
    let mut branch = Branch::root();
    let record = branch.next(&[Set("empty", b""), Set("nul", b"\0"), Set("every", &every), Set("long", &long)]);
    saver.commit(&lease, vec![record].into()).await?;
    let wanted: [(&str, &[&[u8]]); 4] =
        [("empty", &[b""]), ("nul", &[b"\0"]), ("every", &[&every]), ("long", &[&long])];
    has_values("the values", &get(&saver, "t", "", None).await?, &wanted)
}

async fn the_latest_is_the_one_with_the_greatest_id(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let older = branch.next(&[Set("x", b"older")]);
    let newer = branch.next(&[Set("x", b"newer")]);
    saver.commit(&lease, vec![newer].into()).await?;
    saver.commit(&lease, vec![older].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    same("the latest", &found.checkpoint.id, &branch.tip()?.id)?;
    has_values("its value", &found, &[("x", &[b"newer"])])
}

async fn every_checkpoint_stays_readable(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let mut made = Vec::new();
    for number in 0..20_u8 {
        saver.commit(&lease, vec![branch.next(&[Set("x", &[number])])].into()).await?;
        made.push((branch.tip()?.clone(), number));
    }
    for (checkpoint, number) in made {
        let found = get(&saver, "t", "", Some(checkpoint.id)).await?;
        same("the checkpoint", &found.checkpoint, &checkpoint)?;
        has_values("its value", &found, &[("x", &[&[number]])])?;
    }
    Ok(())
}

async fn unchanged_channels_load_from_earlier_checkpoints(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"x0"), Set("y", b"y0")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Set("y", b"y1")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("x", &[b"x0"]), ("y", &[b"y1"])])
}

async fn a_dropped_channel_does_not_reappear(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"x0"), Set("y", b"y0")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Drop("x")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[Set("y", b"y1")])].into()).await?;
    has_values("the values", &get(&saver, "t", "", None).await?, &[("y", &[b"y1"])])
}

async fn a_channel_may_come_later_and_in_another_order(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"x0"), Set("y", b"y0")])].into()).await?;
    let (mut checkpoint, _) = branch.next_checkpoint(&[]);
    let [x, y] = [checkpoint.versions[0]; 2];
    checkpoint.channels = ["z", "y", "x"].map(Arc::from).into();
    checkpoint.versions = [checkpoint.id, y, x].into();
    let pieces = vec![ChannelBlob { channel: 0, base: None, bytes: b"z0".to_vec() }];
    saver.commit(&lease, vec![branch.record(checkpoint, pieces)].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("x", &[b"x0"]), ("y", &[b"y0"]), ("z", &[b"z0"])])
}

async fn namespaces_are_separate(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut made = Vec::new();
    for namespace in ["", "a", "a:1", "a|b", "A"] {
        let mut branch = Branch::within(namespace);
        saver.commit(&lease, vec![branch.next(&[Set("x", namespace.as_bytes())])].into()).await?;
        made.push((namespace, branch.tip()?.id));
    }
    for (namespace, id) in made {
        let found = get(&saver, "t", namespace, None).await?;
        same("the latest of the namespace", &found.checkpoint.id, &id)?;
        has_values("its value", &found, &[("x", &[namespace.as_bytes()])])?;
        same("the checkpoints of the namespace", &ids(&saver, "t", namespace).await?, &vec![id])?;
        let elsewhere = if namespace.is_empty() { "a" } else { "" };
        same("the id in another namespace", &saver.get("t", elsewhere, Some(id)).await?, &None)?;
    }
    Ok(())
}

async fn threads_are_separate(saver: Subject) -> CaseResult {
    let mut made = Vec::new();
    for thread in ["t", "T", "t ", " ", "t/1"] {
        let lease = claim(&saver, thread).await?;
        let mut branch = Branch::root();
        saver.commit(&lease, vec![branch.next(&[Set("x", thread.as_bytes())])].into()).await?;
        made.push((thread, branch.tip()?.id));
    }
    for (thread, id) in made {
        let found = get(&saver, thread, "", None).await?;
        same("the latest of the thread", &found.checkpoint.id, &id)?;
        has_values("its value", &found, &[("x", &[thread.as_bytes()])])?;
        same("the checkpoints of the thread", &ids(&saver, thread, "").await?, &vec![id])?;
    }
    Ok(())
}

async fn the_same_id_replaces(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let (mut checkpoint, mut pieces) = branch.next_checkpoint(&[Set("x", b"old"), Set("y", b"y")]);
    saver.commit(&lease, vec![branch.record(checkpoint.clone(), pieces.clone())].into()).await?;
    checkpoint.step = 7;
    pieces[0].bytes = b"new".to_vec();
    saver.commit(&lease, vec![branch.record(checkpoint.clone(), pieces)].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    same("the checkpoint", &found.checkpoint, &*checkpoint)?;
    has_values("the values", &found, &[("x", &[b"new"]), ("y", &[b"y"])])?;
    same("the list", &ids(&saver, "t", "").await?, &vec![checkpoint.id])
}

async fn a_commit_of_several_records_is_one(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let (mut root, mut child) = (Branch::root(), Branch::within("a:1"));
    let mut records = vec![root.next(&[Set("x", b"0")])];
    records.push(writes("", root.tip()?.id, new_id(), "a", &[(0, "x", b"w")]));
    records.push(root.next(&[Set("y", b"1")]));
    records.push(child.next(&[Set("z", b"2")]));
    saver.commit(&lease, records.into()).await?;
    same("the number of root checkpoints", &ids(&saver, "t", "").await?.len(), &2)?;
    has_values("the root's values", &get(&saver, "t", "", None).await?, &[("x", &[b"0"]), ("y", &[b"1"])])?;
    has_values("the child's values", &get(&saver, "t", "a:1", None).await?, &[("z", &[b"2"])])?;
    let first = ids(&saver, "t", "").await?[1];
    same("the tasks of the first", &get(&saver, "t", "", Some(first)).await?.writes.len(), &1)
}

type Spoil = fn(&mut Checkpoint, &mut Vec<ChannelBlob>);

async fn an_invalid_commit_stores_nothing(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let spoils: [Spoil; 3] = [
        |checkpoint, _| checkpoint.versions = [].into(),
        |_, pieces| pieces[0].channel = 5,
        |checkpoint, pieces| pieces[0].base = Some(checkpoint.id),
    ];
    for spoil in spoils {
        let mut branch = Branch::root();
        let good = branch.next(&[Set("x", b"0")]);
        let (mut checkpoint, mut pieces) = branch.next_checkpoint(&[Set("x", b"1")]);
        spoil(&mut checkpoint, &mut pieces);
        let bad = branch.record(checkpoint, pieces);
        match saver.commit(&lease, vec![good, bad].into()).await {
            Err(SaverError::Invalid(_)) => {}
            other => return Err(ContractViolation(format!("{other:?} instead of `Invalid`"))),
        }
        same("the stored data", &saver.get("t", "", None).await?, &None)?;
    }
    Ok(())
}

async fn an_empty_commit_is_accepted(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, Vec::new().into()).await?;
    same("the stored data", &saver.get("t", "", None).await?, &None)
}

/// The case awaits the futures in reverse order. The saver must store the commits in the order of their first polls.
async fn commits_keep_the_order_of_their_calls(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let (checkpoint, mut pieces) = branch.next_checkpoint(&[Set("x", b"")]);
    let mut waiting = Vec::new();
    for number in 0..50_u8 {
        pieces[0].bytes = vec![number];
        let mut commit = saver.commit(&lease, vec![branch.record(checkpoint.clone(), pieces.clone())].into());
        match (&mut commit).now_or_never() {
            Some(stored) => {
                stored?;
            }
            None => waiting.push(commit),
        }
    }
    for commit in waiting.into_iter().rev() {
        commit.await?;
    }
    has_values("the last value", &get(&saver, "t", "", None).await?, &[("x", &[&[49]])])
}

async fn commits_of_many_threads_at_once(saver: Subject) -> CaseResult {
    let write = |thread: String| {
        let saver = saver.clone();
        async move {
            let lease = claim(&saver, &thread).await?;
            let mut branch = Branch::root();
            for _ in 0..10 {
                saver.commit(&lease, vec![branch.next(&[Set("x", thread.as_bytes())])].into()).await?;
            }
            saver.release(&lease).await?;
            Ok::<_, ContractViolation>((thread, branch.tip()?.id))
        }
    };
    let all = futures_util::future::join_all((0..20).map(|number| write(format!("thread {number}")))).await;
    for result in all {
        let (thread, id) = result?;
        let found = get(&saver, &thread, "", None).await?;
        same("the latest", &found.checkpoint.id, &id)?;
        has_values("its value", &found, &[("x", &[thread.as_bytes()])])?;
        same("the number of checkpoints", &ids(&saver, &thread, "").await?.len(), &10)?;
    }
    Ok(())
}
