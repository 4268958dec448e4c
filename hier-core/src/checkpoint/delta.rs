//! The format of a value that is stored as what was added to it: the byte of its reducer, then the writes, each behind its
//! length.

use serde_json::Value;

use super::{Chain, CodecError, codec};
use crate::channel::{ChannelSpec, Kind};
use crate::message::Messages;
use crate::reducer::json::Builtin;

/// The reducers whose values grow, with the byte that stands for each in what is stored.
const GROWING: [(&str, u8); 5] = [("append", 1), ("extend", 2), ("by_id", 3), ("upsert", 3), ("messages", 4)];
/// A reducer of the user's.
const CUSTOM: u8 = 0;

/// Whether a channel is stored as what was added: the byte of its reducer.
pub(crate) fn grows(spec: &ChannelSpec) -> Option<u8> {
    if spec.kind == Kind::TopicAccumulate {
        return Some(1);
    }
    let known = GROWING.iter().find(|(name, _)| spec.reducer.as_deref() == Some(name)).map(|(_, byte)| *byte);
    known.or(spec.delta.then_some(CUSTOM))
}

/// The stored form of the values added to a channel in one step.
pub(crate) fn pack<'a>(reducer: u8, parts: impl Iterator<Item = &'a Vec<u8>> + Clone) -> Vec<u8> {
    let mut packed = Vec::with_capacity(1 + parts.clone().map(|part| 4 + part.len()).sum::<usize>());
    packed.push(reducer);
    for part in parts {
        add(&mut packed, part);
    }
    packed
}

/// Adds a write to what is packed.
pub(crate) fn add(packed: &mut Vec<u8>, part: &[u8]) {
    let start = begin(packed);
    packed.extend_from_slice(part);
    end(packed, start);
}

/// Begins a write that is to be added piece by piece, and returns its place.
pub(crate) fn begin(packed: &mut Vec<u8>) -> usize {
    packed.extend_from_slice(&[0; 4]);
    packed.len()
}

/// Ends the write at this place, and returns it.
pub(crate) fn end(packed: &mut [u8], start: usize) -> &mut [u8] {
    let (before, part) = packed.split_at_mut(start);
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    if let Some(place) = before.last_chunk_mut() {
        *place = length.to_le_bytes();
    }
    part
}

/// The byte of the reducer, and the writes.
pub(crate) fn unpack(packed: &[u8]) -> Result<(u8, Vec<&[u8]>), CodecError> {
    let cut = || CodecError::new("a part of the value is cut off");
    let (reducer, mut rest) = packed.split_first().ok_or_else(cut)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (part, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
        parts.push(part);
        rest = tail;
    }
    Ok((*reducer, parts))
}

/// The value of a chain as JSON, without knowing its type: for tools that show what is stored.
///
/// A channel that is stored in parts which only the program's own reducer can put together (`#[channel(delta)]`) is an error.
pub fn chain_json(chain: &Chain) -> Result<Value, CodecError> {
    let full =
        chain.full.as_deref().ok_or_else(|| CodecError::new("the whole value that its parts belong to is missing"))?;
    let mut parts = Vec::new();
    let mut reducer = CUSTOM;
    for packed in &chain.deltas {
        let (byte, mut found) = unpack(packed)?;
        reducer = byte;
        parts.append(&mut found);
    }
    if reducer == 4 && !parts.is_empty() {
        let mut messages: Messages = codec::decode(full)?;
        for part in parts {
            messages.merge(codec::decode(part)?).map_err(|error| CodecError::new(error.to_string()))?;
        }
        return serde_json::to_value(messages).map_err(|error| CodecError::new(error.to_string()));
    }
    let mut value = codec::decode_json(full)?;
    for part in parts {
        let part = codec::decode_json(part)?;
        let merged = match (reducer, &mut value, part) {
            (1, Value::String(old), Value::String(new)) => {
                old.push_str(&new);
                Ok(())
            }
            (1, old, new) => Builtin::Append.apply(old, new),
            // Sets are lists, maps are objects.
            (2, Value::Array(old), Value::Array(new)) => {
                old.extend(new.into_iter().filter(|item| !old.contains(item)).collect::<Vec<_>>());
                Ok(())
            }
            (2, old, new) => Builtin::Extend.apply(old, new),
            (3, old, new) => Builtin::ById.apply(old, new),
            _ => {
                return Err(CodecError::new(
                    "it is stored in parts, which only the program's own reducer can put together",
                ));
            }
        };
        merged.map_err(|error| CodecError::new(error.to_string()))?;
    }
    Ok(value)
}
