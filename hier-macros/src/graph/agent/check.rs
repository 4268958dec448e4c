//! The rules of agents and policies that can be told from the text:
//!
//! 1. [`merged_or_discarded`]: no channel is both merged and discarded.
//! 2. [`not_itself`]: no agent contains itself.
//! 3. [`once`]: no subagent stands twice among the subagents of one agent.
//! 4. [`one_compact`]: one layer says which part of the conversation is sent.
//!
//! What needs the types is left to the compiler: see [`expand`](super::expand).

use syn::{Ident, Path};

use super::ast::{Agent, Layer, Membership, Policy};
use super::shape::members;
use crate::diag::Errors;

/// Checks a graph.
pub(in super::super) fn check(name: &Ident, agent: Option<&mut Agent>, member: &Membership, errors: &mut Errors) {
    let before = errors.len();
    if let Some(policy) = &member.policy {
        merged_or_discarded(policy, errors);
    }
    let Some(agent) = agent else { return };
    for attachment in members(agent) {
        if let Some(policy) = &attachment.policy {
            merged_or_discarded(policy, errors);
        }
        not_itself(name, &attachment.path, errors);
    }
    once(agent, errors);
    one_compact(&agent.layers, errors);
    agent.flawed = errors.len() > before;
}

/// A merged field is taken over, a discarded one is not.
fn merged_or_discarded(policy: &Policy, errors: &mut Errors) {
    let discarded = policy.discard_fields.as_deref().unwrap_or_default();
    for field in policy.merge_fields.as_deref().unwrap_or_default() {
        if let Some(other) = discarded.iter().find(|other| *other == field) {
            errors.push(field, format!("`{field}` is both merged and discarded: remove one"));
            errors.push(other, format!("… also here: `{field}` is both merged and discarded"));
        }
    }
}

/// A hierarchy has an end.
fn not_itself(name: &Ident, path: &Path, errors: &mut Errors) {
    if is_itself(name, path) {
        errors.push(path, format!("`{name}` cannot contain itself: no run of it would ever end"));
    }
}

pub(super) fn is_itself(name: &Ident, path: &Path) -> bool {
    path.get_ident().is_some_and(|path| path == name || path == "Self")
}

/// A subagent is called by its name.
fn once(agent: &Agent, errors: &mut Errors) {
    for (place, attachment) in agent.subagents.iter().enumerate() {
        let path = &attachment.path;
        if let Some(first) = agent.subagents[..place].iter().find(|other| other.path == *path) {
            let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
            errors.push(path, format!("the subagent `{name}` is given twice: the model could not tell them apart"));
            errors.push(&first.path, format!("… also here: the subagent `{name}` is given twice"));
        }
    }
}

/// Of two that say which part of the conversation is sent, one would do nothing. One that is inherited may stand beside the agent's own.
fn one_compact(layers: &[Layer], errors: &mut Errors) {
    let found = layers.iter().filter_map(|layer| match layer {
        Layer::Wrapper(_, inner) => Some((true, compact_of(inner)?)),
        layer => Some((false, compact_of(layer)?)),
    });
    let found: Vec<(bool, &Path)> = found.collect();
    for (place, (is_inherited, path)) in found.iter().enumerate() {
        if let Some((_, first)) = found[..place].iter().find(|(other, _)| other == is_inherited) {
            errors.push(path, "`Compact` is given twice, and one of them would do nothing: keep one");
            errors.push(first, "… also here: `Compact` is given twice");
        }
    }
}

/// The path of a `Compact`.
fn compact_of(layer: &Layer) -> Option<&Path> {
    match layer {
        Layer::Fields(path, _) => path.segments.last().is_some_and(|last| last.ident == "Compact").then_some(path),
        Layer::Method(receiver, _) => compact_of(receiver),
        _ => None,
    }
}
