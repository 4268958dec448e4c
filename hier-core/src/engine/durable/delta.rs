//! Long values are stored as what was added to them, and as a whole now and then.
//!
//! What is added is stored as the writes themselves; reading merges them again. A whole value is stored when merging has
//! become dearer than reading it would be: each part costs about as much to read as [`PART`] bytes. So a value of n bytes
//! is read from at most n / `PART` parts and a few, and what was ever stored of it is O(n).

use serde_json::Value;

use super::scratch::Scratch;
use crate::channel::ChannelSpec;
use crate::checkpoint::delta::{grows, unpack};
use crate::checkpoint::{Chain, CodecError, codec};
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
