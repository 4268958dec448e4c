//! Validates scenarios beyond their JSON form. Each rule reports every place that breaks it.

use std::collections::{BTreeMap, BTreeSet};

use hier_spec::did_you_mean;
use serde_json::Value;

use super::scenario::{Action, Ask, Branch, Call, Channel, Graph, Object, Scenario};

/// Returns all mistakes of a scenario, each with its place. The rules are:
/// * Channels that a node writes or a branch reads are declared.
/// * Inputs are objects of declared channels, or null.
/// * A node has either actions or a graph.
/// * The graphs of nodes are declared, and none contains itself.
pub(crate) fn check(scenario: &Scenario) -> Vec<String> {
    let mut mistakes = Vec::new();
    let subgraphs = &scenario.settings.subgraphs;
    graph("", &scenario.root, subgraphs, &mut mistakes);
    for (name, child) in subgraphs {
        graph(&format!("subgraphs.{name}."), child, subgraphs, &mut mistakes);
        if contains_itself(name, subgraphs) {
            mistakes.push(format!("at `subgraphs.{name}`: the graph contains itself: let none of its nodes run it"));
        }
    }
    for (number, call) in scenario.settings.calls.iter().enumerate() {
        input(&format!("calls[{number}].invoke"), call, &scenario.root.channels, &mut mistakes);
    }
    mistakes
}

type Channels = BTreeMap<String, Channel>;

fn graph(at: &str, graph: &Graph, subgraphs: &BTreeMap<String, Graph>, mistakes: &mut Vec<String>) {
    for (name, node) in &graph.nodes {
        if let Some(child) = &node.graph {
            if !subgraphs.contains_key(child) {
                let tail = did_you_mean(child, subgraphs.keys().map(String::as_str));
                mistakes.push(format!("at `{at}nodes.{name}.graph`: there is no subgraph `{child}`{tail}"));
            }
            if !node.actions.is_empty() {
                mistakes.push(format!("at `{at}nodes.{name}`: a node has `do` or `graph`: leave one out"));
            }
        }
        for (number, action) in node.actions.iter().chain(node.handler.iter().flatten()).enumerate() {
            for channel in written(action) {
                declared(&format!("{at}nodes.{name}.do[{number}]"), channel, &graph.channels, mistakes);
            }
        }
    }
    for (number, branch) in graph.branches.iter().enumerate() {
        let (Branch::Below { on: channel, .. } | Branch::Each { each: channel, .. }) = branch;
        declared(&format!("{at}branches[{number}]"), channel, &graph.channels, mistakes);
    }
}

/// Returns the channels that an action writes.
fn written(action: &Action) -> Vec<&String> {
    match action {
        Action::Write(object) | Action::Overwrite(object) => object.keys().collect(),
        Action::Observe { into, .. } | Action::Interrupt { into, .. } => vec![into],
        // Updates for the parent graph are written to the parent's channels.
        Action::Emit(_) | Action::Goto(_) | Action::Send(_) | Action::Fail(_) | Action::Parent(_) => Vec::new(),
    }
}

fn declared(at: &str, channel: &str, channels: &Channels, mistakes: &mut Vec<String>) {
    if !channels.contains_key(channel) {
        let tail = did_you_mean(channel, channels.keys().map(String::as_str));
        mistakes.push(format!("at `{at}`: there is no channel `{channel}`{tail}"));
    }
}

fn input(at: &str, call: &Call, channels: &Channels, mistakes: &mut Vec<String>) {
    match &call.ask {
        Ask::Invoke(Value::Object(object)) => object.keys().for_each(|name| declared(at, name, channels, mistakes)),
        Ask::Update(object, _) => object.keys().for_each(|name| declared(at, name, channels, mistakes)),
        Ask::Resume(given) => {
            given.update.iter().flat_map(Object::keys).for_each(|name| declared(at, name, channels, mistakes));
        }
        Ask::Invoke(Value::Null) | Ask::State | Ask::History => {}
        Ask::Invoke(_) => mistakes.push(format!("at `{at}`: an input is an object of channels, or null to go on")),
    }
}

/// Returns true if one of the subgraph's nodes runs the same subgraph, at any depth.
fn contains_itself(name: &str, subgraphs: &BTreeMap<String, Graph>) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![name]);
    while let Some(graph) = open.pop().and_then(|open| subgraphs.get(open)) {
        for child in graph.nodes.values().filter_map(|node| node.graph.as_deref()) {
            if child == name {
                return true;
            }
            if subgraphs.contains_key(child) && seen.insert(child) {
                open.push(child);
            }
        }
    }
    false
}
