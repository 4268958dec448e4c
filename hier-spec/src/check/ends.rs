//! Where runs begin, what they never come to, and whether they end.

use std::collections::BTreeSet;

use super::{Findings, Rule, Site};
use crate::reach::Ways;
use crate::{ArmSpec, ArmTarget, EdgeSpec, GraphSpec, Source, Target};

/// Whether an edge leaves START.
pub(super) fn no_entry(spec: &GraphSpec, findings: &mut Findings) -> bool {
    let leaves = spec.edges.iter().any(|edge| match edge {
        EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } => *from == Source::Start,
        EdgeSpec::Join { .. } => false,
    });
    if !leaves {
        let first = spec.nodes.first().map_or("a_node", |node| &node.name);
        let message = format!("nothing leaves START: a run would have nowhere to begin; add `START >> {first}`");
        findings.push(Rule::NoEntry, [Site::Graph], message);
    }
    leaves
}

pub(super) fn unreachable(spec: &GraphSpec, reached: &[bool], dead: &BTreeSet<usize>, findings: &mut Findings) {
    for (index, node) in spec.nodes.iter().enumerate() {
        if !reached[index] && !dead.contains(&index) {
            let name = &node.name;
            let message = format!(
                "`{name}` can never run: no way leads from START to it; add an edge to `{name}`, name it in the `goto` of \
                 a node, or remove it"
            );
            findings.push(Rule::Unreachable, [Site::Node(index)], message);
        }
    }
}

pub(super) fn no_end(spec: &GraphSpec, ways: &Ways, reached: &[bool], findings: &mut Findings) {
    let ends = ways.ending();
    for (index, node) in spec.nodes.iter().enumerate() {
        if reached[index] && !ends[index] {
            let name = &node.name;
            let message =
                format!("END cannot be reached from `{name}`: add `{name} >> END`, or a way that leads there");
            findings.push(Rule::NoEnd, [Site::Node(index)], message);
        }
    }
}

/// Edges that are followed whatever is chosen, and lead round: plain edges, and routes of which each arm goes on within.
///
/// The restless nodes are the greatest set of which each has a plain edge into the set, or a route all of whose arms have
/// a target in it. Once one of them has run, another runs after it, for ever. What is sent does not count (there may be
/// no item), nor what a join sets off (it may wait for more), nor a deferred node's waiting (it runs when nothing else
/// does). A failure that is handled by going elsewhere does not make a run that succeeds end.
pub(super) fn no_rest(spec: &GraphSpec, ways: &Ways, reached: &[bool], findings: &mut Findings) {
    let ends = ways.ending();
    let restless = restless(spec);
    let mut told = vec![false; spec.nodes.len()];
    for first in (0..spec.nodes.len()).filter(|node| restless[*node] && reached[*node]) {
        let Some(circle) = circle(spec, &restless, first, &mut told) else { continue };
        // Where END cannot be reached at all, that is said.
        if circle.iter().any(|(node, _)| !ends[*node]) {
            continue;
        }
        let (from, edge) = closing(spec, &circle);
        findings.push(Rule::NoRest, [Site::Edge(edge)], message(spec, from, edge, &restless));
    }
}

/// The greatest set of nodes that each lead on to one of them for certain.
fn restless(spec: &GraphSpec) -> Vec<bool> {
    let mut restless = vec![true; spec.nodes.len()];
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); spec.nodes.len()];
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); spec.nodes.len()];
    for (index, edge) in spec.edges.iter().enumerate() {
        let (from, targets): (_, Vec<Target>) = match edge {
            EdgeSpec::Plain { from: Source::Node(from), to } => (*from, vec![*to]),
            EdgeSpec::Route { from: Source::Node(from), arms, .. } => {
                (*from, arms.iter().flat_map(|arm| arm.to.iter().map(|to| to.target())).collect())
            }
            _ => continue,
        };
        leaving[from].push(index);
        for to in targets {
            if let Target::Node(to) = to {
                into[to].push(from);
            }
        }
    }
    let mut open: Vec<usize> = (0..spec.nodes.len()).collect();
    while let Some(node) = open.pop() {
        if restless[node] && !leaving[node].iter().any(|edge| leads_on(&spec.edges[*edge], &restless).is_some()) {
            restless[node] = false;
            open.extend_from_slice(&into[node]);
        }
    }
    restless
}

/// The node within to which the edge leads for certain: that of a plain edge, or of the first arm of a route all of whose
/// arms lead to one.
fn leads_on(edge: &EdgeSpec, within: &[bool]) -> Option<usize> {
    let go = |arm: &ArmSpec| {
        arm.to.iter().find_map(|to| match to {
            ArmTarget::Go(Target::Node(node)) if within[*node] => Some(*node),
            _ => None,
        })
    };
    match edge {
        EdgeSpec::Plain { to: Target::Node(to), .. } => within[*to].then_some(*to),
        EdgeSpec::Route { arms, .. } if arms.iter().all(|arm| go(arm).is_some()) => arms.first().and_then(go),
        _ => None,
    }
}

/// The circle that is come to from a restless node: each node with the edge that leads on. None if it was come to before.
fn circle(spec: &GraphSpec, restless: &[bool], first: usize, told: &mut [bool]) -> Option<Vec<(usize, usize)>> {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut node = first;
    loop {
        if let Some(begin) = path.iter().position(|(other, _)| *other == node) {
            return Some(path.split_off(begin));
        }
        if std::mem::replace(&mut told[node], true) {
            return None;
        }
        let leaving = spec.edges.iter().enumerate().filter(|(_, edge)| match edge {
            EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } => *from == Source::Node(node),
            EdgeSpec::Join { .. } => false,
        });
        let mut on = leaving.filter_map(|(index, edge)| Some((index, leads_on(edge, restless)?)));
        let (edge, to) = on.next()?;
        path.push((node, edge));
        node = to;
    }
}

/// The edge that closes the circle: a plain one if there is one, and of these one beside a route, which may be what was
/// meant instead; else the last.
fn closing(spec: &GraphSpec, circle: &[(usize, usize)]) -> (usize, usize) {
    let plain = |(_, edge): &&(usize, usize)| matches!(spec.edges[*edge], EdgeSpec::Plain { .. });
    let routed = |(node, _): &&(usize, usize)| route_of(spec, *node).is_some();
    let beside = circle.iter().rev().filter(plain).find(routed);
    let last = circle.iter().rev().find(plain).or(circle.last());
    beside.or(last).copied().unwrap_or_default()
}

/// The name of a node's first route.
fn route_of(spec: &GraphSpec, node: usize) -> Option<&str> {
    spec.edges.iter().find_map(|edge| match edge {
        EdgeSpec::Route { from, label, .. } if *from == Source::Node(node) => Some(&**label),
        _ => None,
    })
}

fn message(spec: &GraphSpec, from: usize, edge: usize, restless: &[bool]) -> String {
    let name = &spec.nodes[from].name;
    match &spec.edges[edge] {
        EdgeSpec::Route { label, .. } => format!(
            "each arm of `{label}` goes on in a circle, so a run that comes to `{name}` never ends: let an arm lead to END \
             alone, or out of the circle"
        ),
        edge => {
            let to = leads_on(edge, restless).map_or("", |to| &spec.nodes[to].name);
            let mend = match route_of(spec, from) {
                Some(route) => format!("remove it, or make it an arm of `{route}`"),
                None => format!("remove it, or let a route choose it: `{name} >> if again {{ {to} }} else {{ END }}`"),
            };
            format!("`{name} >> {to}` is always followed, so a run that comes to `{name}` never ends: {mend}")
        }
    }
}
