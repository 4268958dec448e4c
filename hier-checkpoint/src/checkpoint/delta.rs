//! The format of an addition to a stored value: the rule of the reducer, and then the writes. The length of each write
//! precedes it.
//!
//! Writes are merged by the stored rule, and not by the channel's current reducer.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::{CodecError, DeltaChain, codec};
use crate::channel::{ChannelSpec, Kind};
use crate::message::Messages;
use crate::reducer::ReduceError;
use crate::reducer::json::Builtin;

/// The rule that merges additions into a stored value: the reducer of the program that stored them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule<'a> {
    Append,
    Extend,
    /// The reducer `by_id`, which is also called `upsert`.
    ById,
    Messages,
    /// A custom reducer with this name.
    Custom(Cow<'a, str>),
}

/// The byte of a custom reducer: the length of its name and the name follow.
const CUSTOM: u8 = 0;
/// The byte of the engine's own lists of writes, which no reducer merges.
const WRITES: u8 = 5;

impl Rule<'_> {
    fn byte(&self) -> u8 {
        match self {
            Self::Custom(_) => CUSTOM,
            Self::Append => 1,
            Self::Extend => 2,
            Self::ById => 3,
            Self::Messages => 4,
        }
    }

    /// Merges the JSON value `new` into the JSON value `old` as the reducer of this rule does. Fails for a custom
    /// reducer, because only the program that defines the reducer can call it.
    pub fn merge_json(&self, old: &mut Value, new: Value) -> Result<(), ReduceError> {
        match (self, &mut *old, new) {
            (Self::Append, Value::String(old), Value::String(new)) => {
                old.push_str(&new);
                Ok(())
            }
            (Self::Append, old, new) => Builtin::Append.apply(old, new),
            // In JSON, sets are lists and maps are objects.
            (Self::Extend, Value::Array(old), Value::Array(new)) => {
                old.extend(new.into_iter().filter(|item| !old.contains(item)).collect::<Vec<_>>());
                Ok(())
            }
            (Self::Extend, old, new) => Builtin::Extend.apply(old, new),
            (Self::ById, old, new) => Builtin::ById.apply(old, new),
            (Self::Messages, old, new) => {
                let read = |value: Value| {
                    serde_json::from_value::<Messages>(value).map_err(|error| ReduceError::new(error.to_string()))
                };
                let mut messages = read(old.take())?;
                messages.merge(read(new)?)?;
                *old = serde_json::to_value(messages).map_err(|error| ReduceError::new(error.to_string()))?;
                Ok(())
            }
            (Self::Custom(_), ..) => Err(ReduceError::new(
                "its value is stored in parts, which only the reducer of the program that wrote them can merge"
                    .to_owned(),
            )),
        }
    }
}

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Extend => "extend",
            Self::ById => "by_id",
            Self::Messages => "messages",
            Self::Custom(name) => name,
        })
    }
}

/// Returns the rule of a channel with a reducer, or of a topic that accumulates. Returns `None` for all other channels,
/// and for a reducer without a name.
pub fn rule(spec: &ChannelSpec) -> Option<Rule<'_>> {
    Some(match (spec.kind, spec.reducer.as_deref()) {
        (Kind::TopicAccumulate, _) | (Kind::Reduced, Some("append")) => Rule::Append,
        (Kind::Reduced, Some("extend")) => Rule::Extend,
        (Kind::Reduced, Some("by_id" | "upsert")) => Rule::ById,
        (Kind::Reduced, Some("messages")) => Rule::Messages,
        (Kind::Reduced, Some(name)) => Rule::Custom(name.into()),
        _ => return None,
    })
}

/// Returns the rule of a channel if checkpoints store the changes of the channel as additions. Returns `None` if they
/// store the whole value after each change.
pub fn grows(spec: &ChannelSpec) -> Option<Rule<'_>> {
    rule(spec).filter(|rule| spec.delta || !matches!(rule, Rule::Custom(_)))
}

/// Encodes an addition to a stored value: the rule, and then `parts`, which are the encoded writes of one superstep.
pub fn pack<'a>(rule: &Rule<'_>, parts: impl Iterator<Item = &'a Vec<u8>> + Clone) -> Vec<u8> {
    let name = if let Rule::Custom(name) = rule { &**name } else { "" };
    let mut packed = Vec::with_capacity(5 + name.len() + parts.clone().map(|part| 4 + part.len()).sum::<usize>());
    packed.push(rule.byte());
    if matches!(rule, Rule::Custom(_)) {
        add(&mut packed, name.as_bytes());
    }
    for part in parts {
        add(&mut packed, part);
    }
    packed
}

/// Begins a list of byte strings. Only the engine reads such a list, and no reducer merges it. To append a byte string,
/// call [`add`].
pub fn begin_writes(packed: &mut Vec<u8>) {
    packed.push(WRITES);
}

/// Appends a byte string, such as an encoded write, to a list that [`pack`] or [`begin_writes`] has begun.
pub fn add(packed: &mut Vec<u8>, part: &[u8]) {
    let start = begin(packed);
    packed.extend_from_slice(part);
    end(packed, start);
}

/// Begins a byte string at the end of a list. Returns its start index, which [`end`] needs. The caller then appends the
/// bytes to `packed`.
pub fn begin(packed: &mut Vec<u8>) -> usize {
    packed.extend_from_slice(&[0; 4]);
    packed.len()
}

/// Ends the byte string that [`begin`] has begun at the index `start`, and stores its length. Returns the byte string.
pub fn end(packed: &mut [u8], start: usize) -> &mut [u8] {
    let (before, part) = packed.split_at_mut(start);
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    if let Some(place) = before.last_chunk_mut() {
        *place = length.to_le_bytes();
    }
    part
}

fn cut_off() -> CodecError {
    CodecError::new("a part of the value is cut off")
}

/// Splits off the part that a length prefix announces, and returns it with the rest.
fn split(rest: &[u8]) -> Result<(&[u8], &[u8]), CodecError> {
    let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
    tail.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut_off)
}

fn split_all(mut rest: &[u8]) -> Result<Vec<&[u8]>, CodecError> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (part, tail) = split(rest)?;
        parts.push(part);
        rest = tail;
    }
    Ok(parts)
}

/// Decodes the rule of the reducer. Also returns the remaining bytes, which contain the writes.
fn header(packed: &[u8]) -> Result<(Rule<'_>, &[u8]), CodecError> {
    let (byte, rest) = packed.split_first().ok_or_else(cut_off)?;
    Ok(match byte {
        1 => (Rule::Append, rest),
        2 => (Rule::Extend, rest),
        3 => (Rule::ById, rest),
        4 => (Rule::Messages, rest),
        &CUSTOM => {
            let (name, rest) = split(rest)?;
            let name = std::str::from_utf8(name).map_err(|error| CodecError::new(error.to_string()))?;
            (Rule::Custom(name.into()), rest)
        }
        other => {
            return Err(CodecError::new(format!(
                "a reducer ({other}) that this version of hier does not know wrote its parts: run a newer version"
            )));
        }
    })
}

/// Decodes an addition that [`pack`] has encoded. Returns the rule and the encoded writes.
pub fn unpack(packed: &[u8]) -> Result<(Rule<'_>, Vec<&[u8]>), CodecError> {
    let (rule, rest) = header(packed)?;
    Ok((rule, split_all(rest)?))
}

/// Decodes a list that [`begin_writes`] has begun. Returns its byte strings.
pub fn unpack_writes(packed: &[u8]) -> Result<Vec<&[u8]>, CodecError> {
    match packed.split_first() {
        Some((&WRITES, rest)) => split_all(rest),
        _ => Err(CodecError::new("it is not a list of writes")),
    }
}

/// Returns the writes of an addition in encoded form, without the rule. A caller can append them to another addition
/// with the same rule.
pub fn tail(packed: &[u8]) -> &[u8] {
    header(packed).map_or_else(|_| packed.get(1..).unwrap_or_default(), |(_, rest)| rest)
}

/// The rule of a chain of additions, and the encoded writes of all these additions.
pub type RuledParts<'a> = (Rule<'a>, Vec<&'a [u8]>);

/// Returns the rule of the additions in `chain`, and their encoded writes. Returns `None` if the chain has no
/// additions. All additions of a chain have the same rule, because a program with another reducer starts a new chain.
pub fn parts(chain: &DeltaChain) -> Result<Option<RuledParts<'_>>, CodecError> {
    let mut all: Option<RuledParts<'_>> = None;
    for packed in &chain.deltas {
        let (rule, mut parts) = unpack(packed)?;
        match &mut all {
            None => all = Some((rule, parts)),
            Some((first, all)) if *first == rule => all.append(&mut parts),
            Some((first, _)) => {
                return Err(CodecError::new(format!(
                    "the reducer `{first}` wrote some of its parts, and `{rule}` wrote others"
                )));
            }
        }
    }
    Ok(all)
}

/// Decodes the stored value of a channel as JSON. Tools that show stored values without knowing their types call this
/// function.
///
/// # Errors
///
/// Fails if stored bytes are missing or damaged. Also fails for additions of a custom reducer (`#[channel(delta)]`),
/// because only the program with this reducer can merge them.
pub fn chain_json(chain: &DeltaChain) -> Result<Value, CodecError> {
    let full = chain
        .full
        .as_deref()
        .ok_or_else(|| CodecError::new("the stored data is damaged: the value to which its parts belong is missing"))?;
    let Some((rule, parts)) = parts(chain)? else { return codec::decode_json(full) };
    let refused = |error: ReduceError| CodecError::new(error.to_string());
    if rule == Rule::Messages {
        let mut messages: Messages = codec::decode(full)?;
        for part in parts {
            messages.merge(codec::decode(part)?).map_err(refused)?;
        }
        return serde_json::to_value(messages).map_err(|error| CodecError::new(error.to_string()));
    }
    let mut value = codec::decode_json(full)?;
    for part in parts {
        rule.merge_json(&mut value, codec::decode_json(part)?).map_err(refused)?;
    }
    Ok(value)
}
