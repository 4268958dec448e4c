//! The stored form of a task's result, which belongs to the checkpoint before its superstep.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::{ChannelSpec, LAST};
use crate::checkpoint::{AnswerRecord, CodecError, PendingWrite, SendRecord, codec, slot};
use crate::engine::program::{By, Destinations, Program, TaskOutcome};
use crate::error::NodeError;
use crate::state::{ChannelWrite, Values, Writes, encode_readable, secret};

/// The entry with the destinations of a task. It is stored last, together with the writes, and marks the task as done.
pub(in crate::engine) const ROUTING: &str = "__routing__";
pub(in crate::engine) const ERROR: &str = "__error__";
pub(in crate::engine) const INTERRUPT: &str = "__interrupt__";
pub(in crate::engine) const RESUME: &str = "__resume__";
/// An entry that removes the answer in its slot.
pub(in crate::engine) const VOID: &str = "__void__";

/// The destinations of a task, with the rules of its writes.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::engine) struct RoutingRecord {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) go: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) sends: Vec<SendRecord>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::engine) handler: bool,
    /// The version of the state. Defaults to the version of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) version: Option<u32>,
    /// The names of the written channels and their reducers. Channels with the reducer `last` are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::engine) rules: Vec<(Arc<str>, Arc<str>)>,
    /// The run of a command: [`Config::author`](crate::Config).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) by: Option<[u8; 6]>,
}

impl RoutingRecord {
    /// Records the targets and the reducers by name. The version is left out for a state that has only one version.
    pub(in crate::engine) fn new<S: Values, C>(
        graph: &Program<S, C>,
        writes: &Writes<S>,
        destinations: &Destinations,
        handler: bool,
    ) -> Result<Self, CodecError> {
        let go = destinations.go.iter().map(|node| graph.plan.shared_name(*node).clone()).collect();
        let mut sends = Vec::new();
        for (node, arg) in destinations.sends.iter() {
            sends.push(graph.send_record(node, &arg)?);
        }
        let version = Some(S::VERSION).filter(|version| *version > 1);
        let mut rules: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for write in writes.iter().filter(|write| !write.is_overwrite()) {
            let rule = graph.channels.get(write.channel()).map_or(LAST, ChannelSpec::rule);
            if rule != LAST && rules.iter().all(|(channel, _)| &**channel != write.name()) {
                rules.push((write.name().into(), rule.into()));
            }
        }
        Ok(Self { go, sends, handler, version, rules, by: None })
    }

    pub(in crate::engine) fn rule_of(&self, channel: &str) -> WriteRule<'_> {
        let reducer = self.rules.iter().find(|(name, _)| &**name == channel).map_or(LAST, |(_, rule)| rule);
        WriteRule { version: self.version, reducer }
    }
}

/// The version and the reducer under which a stored write was made.
#[derive(Clone, Copy)]
pub(in crate::engine) struct WriteRule<'a> {
    /// The version of the state. Defaults to the version of the checkpoint.
    pub(in crate::engine) version: Option<u32>,
    pub(in crate::engine) reducer: &'a str,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::engine) struct FailureRecord {
    pub(in crate::engine) message: String,
    /// True if the error handler takes over from the node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::engine) handled: bool,
    /// If set, the results in lower slots are void, because they could not be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) void: Option<i32>,
}

pub(in crate::engine) fn entry<T: Serialize + ?Sized>(
    slot: i32,
    name: &str,
    value: &T,
) -> Result<PendingWrite, NodeError> {
    Ok(PendingWrite { slot, channel: name.into(), value: codec::encode_record(value)? })
}

pub(in crate::engine) fn answer(number: usize, identity: &str, value: &Value) -> Result<PendingWrite, NodeError> {
    let record = AnswerRecord { to: identity.to_owned(), value: value.clone() };
    entry(slot::answer(i32::try_from(number).unwrap_or(i32::MAX - 1000)), RESUME, &record)
}

pub(in crate::engine) fn no_answer_for_anyone() -> PendingWrite {
    PendingWrite { slot: slot::RESUME, channel: VOID.into(), value: Vec::new() }
}

pub(in crate::engine) fn no_answer(number: usize) -> PendingWrite {
    let slot = slot::answer(i32::try_from(number).unwrap_or(i32::MAX - 1000));
    PendingWrite { slot, channel: VOID.into(), value: Vec::new() }
}

/// Encodes the writes in slots from `first` on. Leaves out writes that are never stored.
pub(in crate::engine) fn writes<S: Values>(first: i32, writes: &Writes<S>) -> Result<Vec<PendingWrite>, NodeError> {
    let mut list = Vec::with_capacity(writes.len() + 1);
    for (slot, write) in (first..).zip(writes) {
        let Some(value) = write.stored() else { continue };
        let mut bytes = Vec::with_capacity(16);
        encode_readable(value, &mut bytes, &mut false).map_err(|error| {
            let error = secret::unfit(write.is_secret(), error);
            NodeError::permanent(format!("the node's write to channel `{}` cannot be stored: {error}", write.name()))
        })?;
        if write.is_overwrite() {
            codec::mark_overwrite(&mut bytes);
        }
        list.push(PendingWrite { slot, channel: write.name().into(), value: bytes });
    }
    Ok(list)
}

pub(in crate::engine) fn done<S: Values, C>(
    graph: &Program<S, C>,
    first: i32,
    done: &TaskOutcome<S>,
) -> Result<Vec<PendingWrite>, NodeError> {
    let mut list = writes(first, &done.writes)?;
    let nowhere = Destinations::default();
    let routing = done.destinations.as_deref().unwrap_or(&nowhere);
    let routing = RoutingRecord::new(graph, &done.writes, routing, done.by == By::Handler)?;
    let end = first.saturating_add(i32::try_from(done.writes.len()).unwrap_or(i32::MAX));
    list.push(entry(end, ROUTING, &routing)?);
    Ok(list)
}
