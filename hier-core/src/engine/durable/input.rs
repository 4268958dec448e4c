//! Stores a long value of an input only once. If the first superstep stores the same bytes, the input refers to the
//! checkpoint of that superstep.
//!
//! A user's message is part of the input and of the conversation in the next checkpoint. One commit stores both, so the
//! input can refer to the checkpoint. A reader of the input follows this reference.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{ChannelBlob, CodecError, DeltaChain, Saved, SaverError, WriteRecord, delta};
use crate::engine::durable::names::START;
use crate::engine::log::saver::Saver;

/// The byte in front of the id of the referenced checkpoint.
const REFERENCE: u8 = 254;
/// Values up to this size are stored twice, because a reference would save little.
const SHORT: usize = 64;

/// Replaces long values of an input by references to the checkpoint of its superstep, if that checkpoint stores them.
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

/// Returns true if the piece adds exactly this part to an earlier value.
fn is_part(piece: &ChannelBlob, bytes: &[u8]) -> bool {
    piece.base.is_some() && delta::unpack(&piece.bytes).is_ok_and(|(_, parts)| parts == [bytes])
}

fn is(channels: &[Arc<str>], channel: usize, name: &str) -> bool {
    channels.get(channel).is_some_and(|channel| &**channel == name)
}

/// Replaces the references in an input by the values.
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
    let after = after.ok_or_else(|| {
        damaged(CodecError::new(format!(
            "the input of the checkpoint is stored in the later checkpoint `{id}`, which was deleted"
        )))
    })?;
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

fn referred(part: &[u8]) -> Option<Uuid> {
    let (&REFERENCE, id) = part.split_first()? else { return None };
    Uuid::from_slice(id).ok()
}

/// Returns the value that a checkpoint added to a channel.
fn last_part(after: &Saved, name: &[u8]) -> Result<Vec<u8>, CodecError> {
    let missing =
        || CodecError::new("the input of the checkpoint is stored in a later checkpoint, which no longer contains it");
    let named = |channel: &usize| after.checkpoint.channels.get(*channel).is_some_and(|known| known.as_bytes() == name);
    let chain: Option<&DeltaChain> = after.values.iter().find(|(channel, _)| named(channel)).map(|(_, chain)| chain);
    let packed = chain.and_then(|chain| chain.deltas.last()).ok_or_else(missing)?;
    let (_, parts) = delta::unpack(packed)?;
    parts.first().map(|part| part.to_vec()).ok_or_else(missing)
}
