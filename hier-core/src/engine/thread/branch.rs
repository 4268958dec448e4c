//! Copies a checkpoint. The graph of the thread is not needed.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{ChannelBlob, Checkpointer, Lease, SaverError, Source, TaskWrites, WriteRecord};
use crate::engine::durable::clock::IdClock;
use crate::engine::durable::heads::newest;
use crate::engine::durable::input;
use crate::engine::durable::names::START;
use crate::engine::log::saver::Saver;

/// Copies a checkpoint of the root graph and makes the copy the latest checkpoint of the thread.
///
/// The copy has the values and the next nodes of the original. If the original contains an input that was not applied,
/// the copy also contains it. The copy does not have the results and answers of the superstep that followed the
/// original. Therefore, the tasks of this superstep run and ask again.
///
/// The thread is that of the `lease`. Returns the id of the copy, or `None` if the thread has no such checkpoint.
///
/// Cancel safe: a dropped call has stored everything or nothing.
pub async fn branch_off(
    saver: &Arc<dyn Checkpointer>,
    lease: &Lease,
    checkpoint: Uuid,
) -> Result<Option<Uuid>, SaverError> {
    let (saver, thread) = (&Saver::new(saver.clone()), &*lease.thread);
    let Some(mut found) = saver.get(thread, "", Some(checkpoint)).await? else { return Ok(None) };
    // The copy stores the whole input, because the original may contain only a reference to it.
    input::complete(saver, thread, "", &mut found).await?;
    let newest = newest(saver, thread, "").await?.map(|newest| newest.id);
    let mut copy = found.checkpoint;
    copy.step = copy.step.saturating_add(1);
    copy.id = IdClock::after(newest).id(copy.step);
    (copy.parent, copy.source) = (Some(checkpoint), Source::Fork);
    let mut pieces = Vec::new();
    let start = copy.channels.iter().position(|channel| &**channel == START);
    let input = found.values.into_iter().find(|(channel, _)| Some(*channel) == start);
    if let Some((channel, bytes)) = input.and_then(|(channel, chain)| Some((channel, chain.full?))) {
        let mut versions = copy.versions.to_vec();
        versions[channel] = copy.id;
        copy.versions = versions.into();
        pieces.push(ChannelBlob { channel, base: None, bytes });
    }
    let id = copy.id;
    let namespace: Arc<str> = Arc::from("");
    let mut records =
        vec![WriteRecord::Checkpoint { namespace: namespace.clone(), checkpoint: Box::new(copy), pieces }];
    // Commands do not belong to a task, and are copied. Answers are not copied.
    for mut writes in found.writes.into_iter().filter(|writes| writes.task.is_nil()) {
        writes.writes.retain(|write| write.slot >= 0);
        records.push(WriteRecord::Writes {
            namespace: namespace.clone(),
            writes: TaskWrites { checkpoint: id, ..writes },
        });
    }
    saver.commit(lease, records).await?;
    Ok(Some(id))
}
