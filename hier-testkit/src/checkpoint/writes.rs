use futures_util::future::join_all;
use uuid::Uuid;

use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, cases, claim, get, holds, new_id, same, writes};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpointer, Saved, WriteRecord, slot};

cases!(super::Case, "writes":
    writes_come_back_as_they_were,
    they_come_in_the_order_of_path_task_and_slot,
    a_slot_is_written_once,
    a_slot_below_zero_is_overwritten,
    a_task_may_write_again_in_other_slots,
    they_belong_to_one_checkpoint,
    they_belong_to_one_namespace,
    the_next_checkpoint_has_none,
    they_stay_when_the_checkpoint_is_replaced,
    a_thousand_tasks_of_one_step,
);

/// Returns (path, task, slot, channel, value) of each write, in order.
fn flat(saved: &Saved) -> Vec<(String, Uuid, i32, String, Vec<u8>)> {
    let tasks = saved.writes.iter();
    let all = tasks.flat_map(|task| {
        let writes = task.writes.iter();
        writes
            .map(|write| (task.path.to_string(), task.task, write.slot, write.channel.to_string(), write.value.clone()))
    });
    all.collect()
}

async fn writes_come_back_as_they_were(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    let (id, task) = (branch.tip()?.id, new_id());
    let record = writes("", id, task, "~node, a", &[(0, "x", b"\0\xff"), (1, "branch:to:b", b""), (2, "x", b"again")]);
    let WriteRecord::Writes { writes: wanted, .. } = record.clone() else { return Ok(()) };
    saver.commit(&lease, vec![record].into()).await?;
    same("the writes", &get(&saver, "t", "", None).await?.writes, &vec![wanted])
}

async fn they_come_in_the_order_of_path_task_and_slot(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let id = branch.tip()?.id;
    let mut tasks = [Uuid::from_u128(1), Uuid::from_u128(u128::MAX), Uuid::from_u128(1 << 127)];
    tasks.sort();
    let paths = ["", "Z", "a", "a b", "a-b", "ab", "b", "é"];
    let mut records = Vec::new();
    let mut wanted = Vec::new();
    for path in paths {
        // Each path has different task ids.
        let own = tasks.map(|task| Uuid::from_u128(task.as_u128() ^ (path.len() as u128) << 64 ^ hash(path)));
        let mut own: Vec<_> = own.into_iter().collect();
        own.sort();
        for task in own {
            for slot in [-4, -3, -1, 0, 1, 2, 10] {
                wanted.push((path.to_owned(), task, slot, "x".to_owned(), b"v".to_vec()));
                records.push(writes("", id, task, path, &[(slot, "x", b"v")]));
            }
        }
    }
    // The commit contains the writes in another order than the expected one.
    let mut mixed = Vec::new();
    for offset in 0..5 {
        mixed.extend(records.iter().skip(offset).step_by(5).rev().cloned());
    }
    saver.commit(&lease, mixed.into()).await?;
    same("the writes", &flat(&get(&saver, "t", "", None).await?), &wanted)
}

fn hash(text: &str) -> u128 {
    text.bytes().fold(7, |hash, byte| hash * 31 + u128::from(byte))
}

async fn a_slot_is_written_once(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let (id, task) = (branch.tip()?.id, new_id());
    saver.commit(&lease, vec![writes("", id, task, "a", &[(0, "x", b"first"), (1, "y", b"first")])].into()).await?;
    saver.commit(&lease, vec![writes("", id, task, "a", &[(0, "z", b"second"), (2, "x", b"second")])].into()).await?;
    let again =
        vec![writes("", id, task, "a", &[(2, "x", b"third")]), writes("", id, task, "a", &[(3, "x", b"third")])];
    saver.commit(&lease, again.into()).await?;
    let wanted = [(0, "x", "first"), (1, "y", "first"), (2, "x", "second"), (3, "x", "third")];
    same("the writes", &brief(&get(&saver, "t", "", None).await?), &wanted.map(owned).to_vec())
}

async fn a_slot_below_zero_is_overwritten(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let (id, task) = (branch.tip()?.id, new_id());
    for round in ["first", "second", "third"] {
        let slots = [slot::ERROR, slot::INTERRUPT, slot::RESUME].map(|slot| (slot, round, round.as_bytes()));
        saver.commit(&lease, vec![writes("", id, task, "a", &slots)].into()).await?;
    }
    // The last write also wins within one commit.
    let twice = vec![
        writes("", id, task, "a", &[(slot::ERROR, "e", b"fourth")]),
        writes("", id, task, "a", &[(slot::ERROR, "e", b"fifth")]),
    ];
    saver.commit(&lease, twice.into()).await?;
    let wanted = [(-4, "third", "third"), (-3, "third", "third"), (-1, "e", "fifth")];
    same("the writes", &brief(&get(&saver, "t", "", None).await?), &wanted.map(owned).to_vec())
}

fn brief(saved: &Saved) -> Vec<(i32, String, String)> {
    let all = flat(saved).into_iter();
    all.map(|(_, _, slot, channel, value)| (slot, channel, String::from_utf8_lossy(&value).into_owned())).collect()
}

fn owned((slot, channel, value): (i32, &str, &str)) -> (i32, String, String) {
    (slot, channel.to_owned(), value.to_owned())
}

async fn a_task_may_write_again_in_other_slots(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let (id, task) = (branch.tip()?.id, new_id());
    saver.commit(&lease, vec![writes("", id, task, "a", &[(slot::INTERRUPT, "__interrupt__", b"?")])].into()).await?;
    saver.commit(&lease, vec![writes("", id, task, "a", &[(slot::RESUME, "__resume__", b"!")])].into()).await?;
    saver.commit(&lease, vec![writes("", id, task, "a", &[(0, "x", b"done")])].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    same("the number of tasks", &found.writes.len(), &1)?;
    let wanted = [(-4, "__resume__", "!"), (-3, "__interrupt__", "?"), (0, "x", "done")];
    same("the writes", &brief(&found), &wanted.map(owned).to_vec())
}

async fn they_belong_to_one_checkpoint(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let task = new_id();
    let mut made = Vec::new();
    for value in ["first", "second"] {
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        let id = branch.tip()?.id;
        saver.commit(&lease, vec![writes("", id, task, "a", &[(0, "x", value.as_bytes())])].into()).await?;
        made.push((id, value));
    }
    for (id, value) in made {
        let found = get(&saver, "t", "", Some(id)).await?;
        same("its writes", &brief(&found), &vec![owned((0, "x", value))])?;
        holds("they say whose they are", found.writes.iter().all(|task| task.checkpoint == id))?;
    }
    Ok(())
}

async fn they_belong_to_one_namespace(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let (checkpoint, pieces) = branch.next_checkpoint(&[]);
    let (id, task) = (checkpoint.id, new_id());
    for namespace in ["", "child"] {
        let record = Branch::within(namespace).record(checkpoint.clone(), pieces.clone());
        let value = format!("of {namespace:?}");
        saver
            .commit(&lease, vec![record, writes(namespace, id, task, "a", &[(0, "x", value.as_bytes())])].into())
            .await?;
    }
    for namespace in ["", "child"] {
        let found = get(&saver, "t", namespace, Some(id)).await?;
        same("the writes", &brief(&found), &vec![owned((0, "x", &format!("of {namespace:?}")))])?;
    }
    Ok(())
}

async fn the_next_checkpoint_has_none(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    saver.commit(&lease, vec![writes("", branch.tip()?.id, new_id(), "a", &[(0, "x", b"v")])].into()).await?;
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    holds("the new checkpoint has no writes", get(&saver, "t", "", None).await?.writes.is_empty())
}

async fn they_stay_when_the_checkpoint_is_replaced(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let record = branch.next(&[Set("x", b"0")]);
    let of_task = writes("", branch.tip()?.id, new_id(), "a", &[(0, "x", b"v")]);
    saver.commit(&lease, vec![record.clone(), of_task].into()).await?;
    saver.commit(&lease, vec![record].into()).await?;
    same("the number of tasks", &get(&saver, "t", "", None).await?.writes.len(), &1)
}

async fn a_thousand_tasks_of_one_step(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    let id = branch.tip()?.id;
    let mut waiting = Vec::new();
    for number in 0..1_000_u32 {
        let task = Uuid::from_u128(u128::from(number) + 1);
        let record = writes("", id, task, &format!("{number:06}"), &[(0, "x", &number.to_le_bytes())]);
        waiting.push(saver.commit(&lease, vec![record].into()));
    }
    for stored in join_all(waiting).await {
        stored?;
    }
    let found = flat(&get(&saver, "t", "", None).await?);
    same("the number of writes", &found.len(), &1_000)?;
    for (number, write) in (0_u32..).zip(&found) {
        if write.4 != number.to_le_bytes() {
            return Err(ContractViolation(format!("write {number} is {write:?}")));
        }
    }
    Ok(())
}
