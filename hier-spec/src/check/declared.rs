//! Names and duplicates: rules without which a graph cannot run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use super::{Findings, ShapeRule, SpecSite, macro_name};
use crate::{EdgeSpec, GraphSpec, Source, names};

/// Records an item. Returns the place of the first equal one, if there is one.
pub(super) fn first_equal<T: Eq + Hash, P: Copy>(seen: &mut HashMap<T, P>, item: T, place: P) -> Option<P> {
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
        findings.push(ShapeRule::ReservedName, [SpecSite::Name], message);
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        if let Some(message) = names::node(&node.name) {
            findings.push(ShapeRule::ReservedName, [SpecSite::Node(index)], message);
        }
    }
}

pub(super) fn doubled_nodes(spec: &GraphSpec, findings: &mut Findings) {
    let mut seen = HashMap::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        let name = &*node.name;
        if let Some(first) = first_equal(&mut seen, name, index) {
            let message = format!("the node `{name}` is given twice: rename one");
            findings.push(ShapeRule::DoubledNode, [SpecSite::Node(index), SpecSite::Node(first)], message);
        }
    }
}

/// A run identifies the routes of a node and the arms of a route by name.
pub(super) fn doubled_routes(spec: &GraphSpec, findings: &mut Findings) {
    let mut routes: HashMap<(Source, &str), usize> = HashMap::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { from, label, arms } = edge else { continue };
        if let Some(first) = first_equal(&mut routes, (*from, label), index) {
            let from = macro_name(spec.source_name(*from));
            let message =
                format!("two routes of `{from}` have the name `{label}`: remove one, join the two, or rename one");
            findings.push(ShapeRule::DoubledRoute, [SpecSite::Edge(index), SpecSite::Edge(first)], message);
        }
        let mut seen = HashMap::new();
        for (number, arm) in arms.iter().enumerate() {
            if let Some(first) = first_equal(&mut seen, &*arm.label, number) {
                let message = format!(
                    "the route `{label}` has two arms `{}`, and a run never chooses the second: rename one",
                    arm.label
                );
                findings.push(
                    ShapeRule::DoubledRoute,
                    [SpecSite::Arm(index, number), SpecSite::Arm(index, first)],
                    message,
                );
            }
        }
    }
}

pub(super) fn empty_joins(spec: &GraphSpec, findings: &mut Findings) {
    for (index, edge) in spec.edges.iter().enumerate() {
        if let EdgeSpec::Join { from, to } = edge
            && from.is_empty()
        {
            let to = macro_name(spec.target_name(*to));
            let message = format!("the join into `{to}` has no sources: add the nodes that it waits for");
            findings.push(ShapeRule::EmptyJoin, [SpecSite::Edge(index)], message);
        }
    }
}
