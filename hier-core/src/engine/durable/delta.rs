//! Stores long values as the parts that were added to them, and as a whole from time to time.
//!
//! The parts are the writes themselves, and reading merges them again. A whole value is stored when merging has become
//! more expensive than reading the value. Reading a part costs about as much as reading [`PART`] bytes of a whole
//! value. So a value of n bytes has at most about n / `PART` parts, or [`FEW`] if that is more, and the stored bytes
//! are O(n).

use serde_json::Value;

use crate::channel::ChannelSpec;
use crate::checkpoint::delta::{self, Rule};
use crate::checkpoint::{CodecError, DeltaChain, codec};
use crate::state::Values;

/// Cost of reading one part, in bytes of a whole value.
const PART: usize = 256;
/// A chain with fewer parts is not replaced by a whole value.
const FEW: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) parts: usize,
    pub(crate) bytes: usize,
    /// True if another reducer than the channel's current one made the parts. No more parts are added to such a chain.
    pub(crate) is_foreign: bool,
}

impl Size {
    pub(crate) fn wants_whole(self) -> bool {
        self.is_foreign || self.parts >= FEW && self.parts * PART >= self.bytes
    }

    /// Measures a chain. `spec` is the channel in this program.
    pub(crate) fn of_chain(chain: &DeltaChain, spec: Option<&ChannelSpec>) -> Self {
        let deltas: usize = chain.deltas.iter().map(Vec::len).sum();
        let is_own =
            |packed: &Vec<u8>| delta::unpack(packed).is_ok_and(|(rule, _)| spec.and_then(delta::grows) == Some(rule));
        Self {
            parts: chain.deltas.len(),
            bytes: deltas + chain.full.as_ref().map_or(0, Vec::len),
            is_foreign: !chain.deltas.first().is_none_or(is_own),
        }
    }
}

pub(crate) fn load_chain<S: Values>(state: &mut S, channel: usize, chain: &DeltaChain) -> Result<(), CodecError> {
    let full = chain
        .full
        .as_deref()
        .ok_or_else(|| CodecError::new("the stored data is damaged: the value to which its parts belong is missing"))?;
    state.load(channel, full)?;
    let Some((rule, parts)) = delta::parts(chain)? else { return Ok(()) };
    let spec = state.channel(channel);
    if spec.and_then(delta::rule).as_ref() == Some(&rule) {
        for part in parts {
            let write = state.write_from(channel, false, part)?;
            state.reduce(write).map_err(|error| CodecError::new(error.to_string()))?;
        }
        return Ok(());
    }
    let today = spec.map_or_else(String::new, |spec| spec.rule().to_owned());
    for part in parts {
        let merged = match &rule {
            Rule::Custom(_) => Ok(false),
            rule => state.merge_stored(channel, rule, part),
        };
        if !merged? {
            return Err(CodecError::new(foreign(&rule, &today)));
        }
    }
    Ok(())
}

/// The error for parts that another reducer made.
fn foreign(rule: &Rule<'_>, today: &str) -> String {
    let (name, back) = match rule {
        Rule::Custom(name) => (name.to_string(), format!("`#[reducer({name})]`, without `#[channel(delta)]`,")),
        rule => (rule.to_string(), format!("`#[reducer({rule})]`")),
    };
    format!(
        "its value is stored in parts that only the reducer `{name}` can merge, but the channel now has the reducer \
         `{today}`: restore {back} until the thread has stored the whole value, or use a new channel for the new reducer"
    )
}

/// Merges a chain with this state's own reducer, and returns its value as JSON.
pub(in crate::engine) fn put_together<S: Values>(
    mut state: S,
    channel: usize,
    chain: &DeltaChain,
) -> Result<Value, CodecError> {
    load_chain(&mut state, channel, chain)?;
    let mut bytes = Vec::new();
    let value = state.stored(channel).ok_or_else(|| CodecError::new("it has no value"))?;
    value.encode(&mut bytes)?;
    codec::decode_json(&bytes)
}
