//! The graph of an agent, for the checks and for breakpoints.

use hier_spec::agent::AgentShape;
use hier_spec::{GraphSpec, NodeSpec};
use quote::ToTokens;
use syn::ext::IdentExt;

use super::super::ast::agent::{AgentFields, Attachment};
use super::layers;
use crate::graph::text::snake_case;

/// Returns the nodes and edges of an agent. The names of its members are guesses, because only the compiler knows them.
/// The generated code replaces them.
pub(in super::super) fn shape(agent: &AgentFields) -> GraphSpec {
    let mut names: Vec<String> = Vec::new();
    let mut nodes = |members: &[Attachment]| -> Vec<NodeSpec> {
        let node = |member: &Attachment| NodeSpec { name: name(member, &mut names).into(), ..NodeSpec::new("") };
        members.iter().map(node).collect()
    };
    let (subagents, front, back) = (nodes(&agent.subagents), nodes(&agent.front), nodes(&agent.back));
    let layers = agent.layers.iter().map(|layer| layers::name(layer).into()).collect();
    AgentShape { kind: agent.kind, subagents, front, back, layers }.spec()
}

/// Guesses the graph's name from its path and appends a number if the name is already in use.
fn name(member: &Attachment, names: &mut Vec<String>) -> String {
    let last = member.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default();
    let name = snake_case(&last);
    let free = (1..).map(|number| if number == 1 { name.clone() } else { format!("{name}_{number}") });
    let free = free.into_iter().find(|name| !names.contains(name)).unwrap_or_default();
    names.push(free.clone());
    free
}

/// Returns for each member, in the order of the nodes, whether an earlier member has the same path.
pub(in super::super) fn repeated(agent: &AgentFields) -> Vec<bool> {
    let paths: Vec<String> = members(agent).map(|member| member.path.to_token_stream().to_string()).collect();
    paths.iter().enumerate().map(|(place, path)| paths[..place].contains(path)).collect()
}

pub(in super::super) fn members(agent: &AgentFields) -> impl Iterator<Item = &Attachment> {
    agent.subagents.iter().chain(&agent.front).chain(&agent.back)
}
