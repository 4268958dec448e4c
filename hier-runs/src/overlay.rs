//! Reads a thread as if pending records were already stored: at the end of a run, and for external changes.

use std::sync::Arc;

use uuid::Uuid;

use hier_checkpoint::checkpoint::{
    ChannelBlob, Checkpoint, Checkpointer, DeltaChain, ListQuery, Listed, PendingWrite, Saved, SaverError, TaskWrites,
    WriteRecord,
};

/// Returns the latest checkpoint of a namespace among these records, or the checkpoint with this id.
fn find<'a>(held: &'a [WriteRecord], namespace: &str, id: Option<Uuid>) -> Option<(&'a Checkpoint, &'a [ChannelBlob])> {
    held.iter().rev().find_map(|record| match record {
        WriteRecord::Checkpoint { namespace: own, checkpoint, pieces }
            if **own == *namespace && id.is_none_or(|id| id == checkpoint.id) =>
        {
            Some((&**checkpoint, pieces.as_slice()))
        }
        _ => None,
    })
}

/// Reads a checkpoint as if the pending records in `held` were already stored. The outer `None` means that only the
/// store can assemble the checkpoint, so the caller must store the records first. The inner `None` means that the
/// checkpoint does not exist.
pub async fn get(
    store: &dyn Checkpointer,
    held: &[WriteRecord],
    thread: &str,
    namespace: &str,
    id: Option<Uuid>,
) -> Result<Option<Option<Saved>>, SaverError> {
    let mut found = checkpoint(store, held, thread, namespace, id).await?;
    if let Some(Some(saved)) = &mut found {
        add_writes(saved, namespace, held);
    }
    Ok(found)
}

async fn checkpoint(
    store: &dyn Checkpointer,
    held: &[WriteRecord],
    thread: &str,
    namespace: &str,
    id: Option<Uuid>,
) -> Result<Option<Option<Saved>>, SaverError> {
    let Some((checkpoint, pieces)) = find(held, namespace, id) else {
        return store.get(thread, namespace, id).await.map(Some);
    };
    if pieces.is_empty()
        && let Some(mut stored) = store.get(thread, namespace, Some(checkpoint.id)).await?
    {
        // The checkpoint was stored before. The record changes the checkpoint, but none of its values.
        stored.checkpoint = checkpoint.clone();
        return Ok(Some(Some(stored)));
    }
    let parent = match checkpoint.parent {
        Some(parent) if find(held, namespace, Some(parent)).is_some() => {
            Box::pin(self::checkpoint(store, held, thread, namespace, Some(parent))).await?.flatten()
        }
        Some(parent) => store.get(thread, namespace, Some(parent)).await?,
        None => None,
    };
    let mut values = Vec::new();
    for (channel, version) in checkpoint.versions.iter().enumerate().filter(|(_, version)| !version.is_nil()) {
        let brought = pieces.iter().find(|piece| piece.channel == channel && *version == checkpoint.id);
        let chain = match brought {
            Some(ChannelBlob { base: None, bytes, .. }) => {
                Some(DeltaChain { full: Some(bytes.clone()), deltas: Vec::new() })
            }
            Some(ChannelBlob { base: Some(base), bytes, .. }) => {
                chain_of(parent.as_ref(), &checkpoint.channels[channel], *base).map(|mut chain| {
                    chain.deltas.push(bytes.clone());
                    chain
                })
            }
            None => chain_of(parent.as_ref(), &checkpoint.channels[channel], *version),
        };
        let Some(chain) = chain else { return Ok(None) };
        values.push((channel, chain));
    }
    Ok(Some(Some(Saved::new(checkpoint.clone(), values, Vec::new()))))
}

/// Adds the results of tasks to a stored checkpoint, as a saver would.
fn add_writes(saved: &mut Saved, namespace: &str, held: &[WriteRecord]) {
    for record in held {
        let WriteRecord::Writes { namespace: of, writes } = record else { continue };
        if **of != *namespace || writes.checkpoint != saved.checkpoint.id {
            continue;
        }
        let place = saved.writes.iter().position(|old| old.task == writes.task);
        let place = place.unwrap_or_else(|| {
            saved.writes.push(TaskWrites { writes: Vec::new(), ..writes.clone() });
            saved.writes.len() - 1
        });
        writes.writes.iter().for_each(|write| put(&mut saved.writes[place].writes, write));
    }
    saved.writes.sort_by(|a, b| (&a.path, a.task).cmp(&(&b.path, b.task)));
}

/// Inserts a write in the order of slots. An existing write in a slot from 0 upwards stays.
fn put(writes: &mut Vec<PendingWrite>, write: &PendingWrite) {
    match writes.binary_search_by_key(&write.slot, |old| old.slot) {
        Ok(place) if write.slot < 0 => writes[place] = write.clone(),
        Ok(_) => {}
        Err(place) => writes.insert(place, write.clone()),
    }
}

/// Lists checkpoints as if the pending records in `held` were already stored. The records belong to the thread
/// `thread`.
pub async fn list(
    store: &dyn Checkpointer,
    held: &[WriteRecord],
    thread: &Arc<str>,
    query: ListQuery,
) -> Result<Vec<Listed>, SaverError> {
    let mut listed = store.list(query.clone()).await?;
    for record in held {
        let WriteRecord::Checkpoint { namespace, checkpoint, .. } = record else { continue };
        let is_there = query.thread.as_ref().is_none_or(|wanted| **wanted == **thread)
            && query.namespace.as_ref().is_none_or(|wanted| **wanted == **namespace);
        if is_there && query.wants(checkpoint) {
            listed.retain(|listed| listed.checkpoint.id != checkpoint.id || listed.namespace != *namespace);
            listed.push(Listed::new(thread.clone(), namespace.clone(), (**checkpoint).clone()));
        }
    }
    listed.sort_by_key(|listed| std::cmp::Reverse(listed.checkpoint.id));
    listed.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(listed)
}

/// Returns the value of a channel if this version of the channel is the version in the checkpoint.
fn chain_of(saved: Option<&Saved>, channel: &Arc<str>, version: Uuid) -> Option<DeltaChain> {
    let saved = saved?;
    let place = saved.checkpoint.channels.iter().position(|own| own == channel)?;
    if saved.checkpoint.versions.get(place) != Some(&version) {
        return None;
    }
    saved.values.iter().find(|(own, _)| *own == place).map(|(_, chain)| chain.clone())
}
