//! An input is stored once: what the step after it stores in the same words is only referred to.
//!
//! A message that a user sends is part of the input, and part of the conversation that the next checkpoint stores. Both are
//! stored in one go, so the first can point to the second. Whoever reads the checkpoint of an input looks there.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{ChannelBlob, CodecError, DeltaChain, Saved, SaverError, WriteRecord, delta};
use crate::engine::durable::journal::START;
use crate::engine::log::saver::Saver;

/// The byte in front of the id of the checkpoint that has the value.
const REFERENCE: u8 = 254;
/// Shorter values are stored twice: a reference would save little.
const SHORT: usize = 64;

/// Replaces what the step after an input stores too.
pub(in crate::engine) fn shorten(input: &mut WriteRecord, step: &WriteRecord) {
    let (
        WriteRecord::Checkpoint { checkpoint, pieces, .. },
        WriteRecord::Checkpoint { checkpoint: after, pieces: stored, .. },
    ) = (input, step)
    else {
        return;
    };
    let start = pieces.iter_mut().find(|piece| is(&checkpoint.channels, piece.channel, START));
    let Some(start) = start else { return };
    let Ok(parts) = delta::unpack_writes(&start.bytes) else { return };
    let mut packed = Vec::with_capacity(start.bytes.len());
    delta::begin_writes(&mut packed);
    for [name, rule, bytes] in parts.as_chunks::<3>().0 {
        let same = |piece: &&ChannelBlob| {
            after.channels.get(piece.channel).is_some_and(|channel| channel.as_bytes() == *name)
                && is_part(piece, bytes)
        };
        delta::add(&mut packed, name);
        delta::add(&mut packed, rule);
        if bytes.len() > SHORT && stored.iter().any(|piece| same(&piece)) {
            let mut reference = vec![REFERENCE];
            reference.extend_from_slice(after.id.as_bytes());
            delta::add(&mut packed, &reference);
        } else {
            delta::add(&mut packed, bytes);
        }
    }
    start.bytes = packed;
}

/// Whether a piece is this one part, added to what was there.
fn is_part(piece: &ChannelBlob, bytes: &[u8]) -> bool {
    piece.base.is_some() && delta::unpack(&piece.bytes).is_ok_and(|(_, parts)| parts == [bytes])
}

fn is(channels: &[Arc<str>], channel: usize, name: &str) -> bool {
    channels.get(channel).is_some_and(|channel| &**channel == name)
}

/// Puts back what an input refers to.
pub(in crate::engine) async fn complete(
    saver: &Saver,
    thread: &str,
    namespace: &str,
    found: &mut Saved,
) -> Result<(), SaverError> {
    let damaged = |error: CodecError| SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() };
    let channels = found.checkpoint.channels.clone();
    let start = found.values.iter_mut().find(|(channel, _)| is(&channels, *channel, START));
    let Some(bytes) = start.and_then(|(_, chain)| chain.full.as_mut()) else { return Ok(()) };
    let parts = delta::unpack_writes(bytes).map_err(damaged)?;
    let Some(id) = parts.iter().find_map(|part| referred(part)) else { return Ok(()) };
    let after = saver.get(thread, namespace, Some(id)).await?;
    let after = after
        .ok_or_else(|| damaged(CodecError::new(format!("its input is part of checkpoint `{id}`, which is gone"))))?;
    let mut packed = Vec::with_capacity(bytes.len());
    delta::begin_writes(&mut packed);
    for [name, rule, bytes] in parts.as_chunks::<3>().0 {
        delta::add(&mut packed, name);
        delta::add(&mut packed, rule);
        match referred(bytes) {
            None => delta::add(&mut packed, bytes),
            Some(_) => delta::add(&mut packed, &last_part(&after, name).map_err(damaged)?),
        }
    }
    *bytes = packed;
    Ok(())
}

/// The checkpoint that has the value.
fn referred(part: &[u8]) -> Option<Uuid> {
    let (&REFERENCE, id) = part.split_first()? else { return None };
    Uuid::from_slice(id).ok()
}

/// The value that a checkpoint added to a channel.
fn last_part(after: &Saved, name: &[u8]) -> Result<Vec<u8>, CodecError> {
    let missing = || CodecError::new("its input is part of a later checkpoint, which has it no longer");
    let named = |channel: &usize| after.checkpoint.channels.get(*channel).is_some_and(|known| known.as_bytes() == name);
    let chain: Option<&DeltaChain> = after.values.iter().find(|(channel, _)| named(channel)).map(|(_, chain)| chain);
    let packed = chain.and_then(|chain| chain.deltas.last()).ok_or_else(missing)?;
    let (_, parts) = delta::unpack(packed)?;
    parts.first().map(|part| part.to_vec()).ok_or_else(missing)
}
