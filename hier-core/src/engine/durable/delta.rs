//! Long values are stored as what was added to them, and as a whole now and then.
//!
//! What is added is stored as the writes themselves; reading merges them again. A whole value is stored when merging has
//! become dearer than reading it would be: each part costs about as much to read as [`PART`] bytes. So a value of n bytes
//! is read from at most n / `PART` parts and a few, and what was ever stored of it is O(n).

use serde_json::Value;

use super::scratch::Scratch;
use crate::agent::Messages;
use crate::channel::{ChannelSpec, Kind};
use crate::checkpoint::{Chain, CodecError, codec};
use crate::reducer::json::Builtin;
use crate::state::{ChannelWrite, Values};

/// What a part costs, in bytes that could be read instead.
const PART: usize = 256;
/// So many parts are always borne.
const FEW: usize = 8;

/// How big what is stored of a channel is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) parts: usize,
    pub(crate) bytes: usize,
}

impl Size {
    /// Whether the next thing to store should be the whole value.
    pub(crate) fn wants_whole(self) -> bool {
        self.parts >= FEW && self.parts * PART >= self.bytes
    }

    /// That of a chain which was read.
    pub(crate) fn of(chain: &Chain) -> Self {
        let deltas: usize = chain.deltas.iter().map(Vec::len).sum();
        Self { parts: chain.deltas.len(), bytes: deltas + chain.full.as_ref().map_or(0, Vec::len) }
    }
}

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

/// What a step has written, noted while it is merged.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The channels that changed, each once.
    pub(crate) changed: Vec<usize>,
    /// What was written to channels that are stored as what was added.
    pub(crate) parts: Vec<Part>,
    /// For each channel the byte of its reducer, if it is stored as what was added.
    pub(crate) grows: Vec<Option<u8>>,
    pub(crate) error: Option<(usize, CodecError)>,
    scratch: Scratch,
}

/// One write of a channel that is stored as what was added.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) channel: usize,
    pub(crate) overwrite: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Notes {
    pub(crate) fn new(channels: &[ChannelSpec]) -> Self {
        Self { grows: channels.iter().map(grows).collect(), ..Self::default() }
    }

    /// Notes a write. `first`: the first of this channel in this step.
    #[inline]
    pub(crate) fn write<W: ChannelWrite>(&mut self, write: &W, first: bool) {
        let channel = write.channel();
        if first {
            self.changed.push(channel);
        }
        if self.grows[channel].is_some() {
            self.part(channel, write);
        }
    }

    fn part<W: ChannelWrite>(&mut self, channel: usize, write: &W) {
        let encoded = write.stored().map_or(Ok(Vec::new()), |value| self.scratch.bytes(|bytes| value.encode(bytes)));
        match encoded {
            Ok(bytes) => self.parts.push(Part { channel, overwrite: write.is_overwrite(), bytes }),
            Err(error) => self.error = Some((channel, error)),
        }
    }

    /// Notes that a channel was cleared.
    pub(crate) fn cleared(&mut self, channel: usize) {
        if !self.changed.contains(&channel) {
            self.changed.push(channel);
        }
    }

    /// Notes channels whose values have to be stored again.
    pub(crate) fn store_again(&mut self, channels: &[usize]) {
        for channel in channels {
            self.cleared(*channel);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.changed.clear();
        self.parts.clear();
    }
}

/// What was added to a channel in one step, as it is stored.
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

/// Takes a channel's value from what was stored.
pub(crate) fn load_chain<S: Values>(state: &mut S, channel: usize, chain: &Chain) -> Result<(), CodecError> {
    let full =
        chain.full.as_deref().ok_or_else(|| CodecError::new("the whole value that its parts belong to is missing"))?;
    state.load(channel, full)?;
    for packed in &chain.deltas {
        for part in unpack(packed)?.1 {
            let write = state.write_from(channel, false, part)?;
            state.reduce(write).map_err(|error| CodecError::new(error.to_string()))?;
        }
    }
    Ok(())
}

/// The value of a chain as JSON, put together by this state's own reducer.
pub(super) fn put_together<S: Values>(mut state: S, channel: usize, chain: &Chain) -> Result<Value, CodecError> {
    load_chain(&mut state, channel, chain)?;
    let mut bytes = Vec::new();
    let value = state.stored(channel).ok_or_else(|| CodecError::new("it has no value"))?;
    value.encode(&mut bytes)?;
    codec::decode_json(&bytes)
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
