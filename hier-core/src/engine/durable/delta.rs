//! Long values are stored as what was added to them, and as a whole now and then.
//!
//! What is added is stored as the writes themselves; reading merges them again. A whole value is stored when merging has
//! become dearer than reading it would be: each part costs about as much to read as [`PART`] bytes. So a value of n bytes
//! is read from at most n / `PART` parts and a few, and what was ever stored of it is O(n).

use serde_json::Value;

use crate::checkpoint::delta::unpack;
use crate::checkpoint::{Chain, CodecError, codec};
use crate::state::Values;

/// Cost of reading one delta, in bytes of a full value.
const PART: usize = 256;
/// Chains of at most this many deltas are never replaced by a full value.
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
pub(in crate::engine) fn put_together<S: Values>(
    mut state: S,
    channel: usize,
    chain: &Chain,
) -> Result<Value, CodecError> {
    load_chain(&mut state, channel, chain)?;
    let mut bytes = Vec::new();
    let value = state.stored(channel).ok_or_else(|| CodecError::new("it has no value"))?;
    value.encode(&mut bytes)?;
    codec::decode_json(&bytes)
}
