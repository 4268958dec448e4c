//! The rules about START, END, unreachable nodes and endless loops.

use std::collections::BTreeSet;

use super::{Findings, ShapeRule, SpecSite};
use crate::reach::Reachability;
use crate::{ArmSpec, ArmTarget, EdgeSpec, GraphSpec, Source, Target};

/// Returns true if an edge leaves START.
pub(super) fn no_entry(spec: &GraphSpec, findings: &mut Findings) -> bool {
    let leaves = spec.edges.iter().any(|edge| match edge {
        EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } => *from == Source::Start,
        EdgeSpec::Join { .. } => false,
    });
    if !leaves {
        let first = spec.nodes.first().map_or("a_node", |node| &node.name);
        let message = format!("no edge leaves START: add `START >> {first}`");
        findings.push(ShapeRule::NoEntry, [SpecSite::Graph], message);
    }
    leaves
}

pub(super) fn unreachable(spec: &GraphSpec, reached: &[bool], dead: &BTreeSet<usize>, findings: &mut Findings) {
    for (index, node) in spec.nodes.iter().enumerate() {
        if !reached[index] && !dead.contains(&index) {
            let name = &node.name;
            let message = format!(
                "`{name}` can never run, because no path leads to it from START: add an edge to `{name}`, add it to the `goto` \
                 of a node, or remove it"
            );
            findings.push(ShapeRule::Unreachable, [SpecSite::Node(index)], message);
        }
    }
}

/// Finds dead ends and loops without an exit. Reports one node of each, and not the nodes before it.
pub(super) fn no_end(spec: &GraphSpec, reach: &Reachability, reached: &[bool], findings: &mut Findings) {
    let ends = reach.ending();
    let mut open: Vec<usize> = (0..spec.nodes.len()).filter(|node| reached[*node] && !ends[*node]).collect();
    while let Some(first) = open.first() {
        let last = reach.last_from(*first);
        let name = &spec.nodes[last].name;
        let message = format!("END cannot be reached from `{name}`: add `{name} >> END`, or another path to END");
        findings.push(ShapeRule::NoEnd, [SpecSite::Node(last)], message);
        let leads = reach.leading_to(&[last]);
        open.retain(|node| !leads[*node]);
    }
}

/// Finds loops that a run never leaves. They consist of plain edges, and of routes whose arms all continue in the loop.
///
/// The restless nodes are the largest set in which each node has a plain edge into the set, or a route all of whose
/// arms have a target in it. After one of them has run, another one runs. Three things do not count: a Send, because
/// there may be no item; a join, because it may wait for more sources; and a deferred node's waiting. A handled failure
/// does not make a successful run end.
pub(super) fn no_rest(spec: &GraphSpec, reach: &Reachability, reached: &[bool], findings: &mut Findings) {
    let ends = reach.ending();
    let restless = restless(spec);
    let mut visited = vec![false; spec.nodes.len()];
    for first in (0..spec.nodes.len()).filter(|node| restless[*node] && reached[*node]) {
        let Some(cycle) = cycle(spec, &restless, first, &mut visited) else { continue };
        // Another rule reports nodes that do not reach END.
        if cycle.iter().any(|(node, _)| !ends[*node]) {
            continue;
        }
        let (from, edge) = closing(spec, &cycle);
        findings.push(ShapeRule::NoRest, [SpecSite::Edge(edge)], message(spec, from, edge, &restless));
    }
}

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

/// Returns the restless target of an edge. A route has one only if each of its arms has one: the target of the first
/// arm.
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

/// Follows a restless node into its loop. Returns each node of the loop with its edge, or `None` if the node was
/// visited before.
fn cycle(spec: &GraphSpec, restless: &[bool], first: usize, visited: &mut [bool]) -> Option<Vec<(usize, usize)>> {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut node = first;
    loop {
        if let Some(begin) = path.iter().position(|(other, _)| *other == node) {
            return Some(path.split_off(begin));
        }
        if std::mem::replace(&mut visited[node], true) {
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

/// Selects the edge to report: a plain edge next to a route, which may have been meant instead; otherwise a plain edge;
/// otherwise the last edge.
fn closing(spec: &GraphSpec, cycle: &[(usize, usize)]) -> (usize, usize) {
    let is_plain = |(_, edge): &&(usize, usize)| matches!(spec.edges[*edge], EdgeSpec::Plain { .. });
    let routed = |(node, _): &&(usize, usize)| route_of(spec, *node).is_some();
    let next_to_route = cycle.iter().rev().filter(is_plain).find(routed);
    let last = cycle.iter().rev().find(is_plain).or(cycle.last());
    next_to_route.or(last).copied().unwrap_or_default()
}

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
            "each arm of `{label}` continues a loop, so a run that reaches `{name}` never ends: lead an arm to END alone, or \
             out of the loop"
        ),
        edge => {
            let to = leads_on(edge, restless).map_or("", |to| &spec.nodes[to].name);
            let fix = match route_of(spec, from) {
                Some(route) => format!("remove it, or make it an arm of `{route}`"),
                None => format!("remove it, or select it with a route, `{name} >> if again {{ {to} }} else {{ END }}`"),
            };
            format!("`{name} >> {to}` is always followed, so a run that reaches `{name}` never ends: {fix}")
        }
    }
}
