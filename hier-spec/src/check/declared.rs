//! Names, and what is said twice: the rules without which there is no graph.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use super::{Findings, Rule, Site, plain};
use crate::{EdgeSpec, GraphSpec, Source, names};

/// The place of the first of these, if this is not the first.
pub(super) fn again<T: Eq + Hash, P: Copy>(seen: &mut HashMap<T, P>, item: T, place: P) -> Option<P> {
    match seen.entry(item) {
        Entry::Occupied(first) => Some(*first.get()),
        Entry::Vacant(entry) => {
            entry.insert(place);
            None
        }
    }
}

pub(super) fn reserved_names(spec: &GraphSpec, findings: &mut Findings) {
    if let Some(message) = names::graph(&spec.name) {
        findings.push(Rule::ReservedName, [Site::Name], message);
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if let Some(message) = names::node(&node.name) {
            findings.push(Rule::ReservedName, [Site::Node(index)], message);
        }
    }
}

pub(super) fn doubled_nodes(spec: &GraphSpec, findings: &mut Findings) {
    let mut seen = HashMap::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        let name = &*node.name;
        if let Some(first) = again(&mut seen, name, index) {
            let message = format!("the node `{name}` is declared twice: give one another name");
            findings.push(Rule::DoubledNode, [Site::Node(index), Site::Node(first)], message);
        }
    }
}

/// A run tells the routes of a node apart by their names, and the arms of a route by theirs.
pub(super) fn doubled_routes(spec: &GraphSpec, findings: &mut Findings) {
    let mut routes: HashMap<(Source, &str), usize> = HashMap::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { from, label, arms } = edge else { continue };
        if let Some(first) = again(&mut routes, (*from, label), index) {
            let from = plain(spec.source_name(*from));
            let message =
                format!("`{from}` is routed by `{label}` twice: remove one, make both one route, or rename one");
            findings.push(Rule::DoubledRoute, [Site::Edge(index), Site::Edge(first)], message);
        }
        let mut seen = HashMap::new();
        for (number, arm) in arms.iter().enumerate() {
            if let Some(first) = again(&mut seen, &*arm.label, number) {
                let message = format!(
                    "the route `{label}` has two arms called `{}`, of which the second is never chosen: rename one",
                    arm.label
                );
                findings.push(Rule::DoubledRoute, [Site::Arm(index, number), Site::Arm(index, first)], message);
            }
        }
    }
}

pub(super) fn empty_joins(spec: &GraphSpec, findings: &mut Findings) {
    for (index, edge) in spec.edges.iter().enumerate() {
        if let EdgeSpec::Join { from, to } = edge
            && from.is_empty()
        {
            let to = plain(spec.target_name(*to));
            let message = format!("the join into `{to}` waits for nothing: name the nodes that it waits for");
            findings.push(Rule::EmptyJoin, [Site::Edge(index)], message);
        }
    }
}
