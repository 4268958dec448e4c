//! A copy of a checkpoint, from which a thread goes on, without the graph that made it.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{ChannelBlob, Checkpointer, Lease, SaverError, Source, TaskWrites, WriteRecord};
use crate::engine::durable::clock::Clock;
use crate::engine::durable::input;
use crate::engine::durable::journal::START;
use crate::engine::durable::kept::newest;
use crate::engine::log::saver::Saver;

/// Makes a copy of a checkpoint of the root graph the latest one of the thread: it has the same values, the same is to run next, and
/// an input or a command's update that waits there waits in the copy. What tasks of the step had done and answers are not part of it:
/// its tasks run again, and ask again.
///
/// Returns the id of the copy; none if the thread has no such checkpoint. It belongs to the thread that the lease is for. The
/// copy is stored in one go: a call that is dropped has stored all of it or nothing.
pub async fn branch_off(
    saver: &Arc<dyn Checkpointer>,
    lease: &Lease,
    checkpoint: Uuid,
) -> Result<Option<Uuid>, SaverError> {
    let (saver, thread) = (&Saver::new(saver.clone()), &*lease.thread);
    let Some(mut found) = saver.get(thread, "", Some(checkpoint)).await? else { return Ok(None) };
    // The copy has the input for itself: the one that it is a copy of may only refer to it.
    input::complete(saver, thread, "", &mut found).await?;
    let newest = newest(saver, thread, "", None, None).await?.map(|newest| newest.id);
    let mut copy = found.checkpoint;
    copy.step = copy.step.saturating_add(1);
    copy.id = Clock::after(newest).id(copy.step);
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
    // What callers' commands gave is no task's. An answer stays with whom it was given to.
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
