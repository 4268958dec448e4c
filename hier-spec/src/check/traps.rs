//! Runs that never end and joins that never fire, decided exactly: all positions of a thread are explored.
//!
//! The rules of the other files suffice for a graph without joins: its tasks do not influence each other. A join
//! remembers its sources, so what follows depends on everything that ran before. Every choice is considered possible: a
//! run that takes a path of the graph may take any other path later.
//!
//! A run that ends while a join waits is not a mistake. The join remembers its sources for the next run of the thread.

use super::path::{path, steps};
use super::{Findings, ShapeRule, SpecSite};
use crate::positions::Positions;
use crate::reach::Reachability;
use crate::{EdgeSpec, GraphSpec, Target};

pub(super) fn find(spec: &GraphSpec, reach: &Reachability, findings: &mut Findings) {
    let joined = spec.edges.iter().flat_map(|edge| match edge {
        EdgeSpec::Join { from, to: Target::Node(to) } => from.iter().chain([to]).copied().collect(),
        _ => Vec::new(),
    });
    let joined: Vec<usize> = joined.collect();
    if joined.is_empty() {
        return;
    }
    let Some(positions) = Positions::with(spec, reach, &joined) else { return };
    endless(spec, &positions, findings);
    dead_joins(spec, &positions, findings);
}

/// Finds the positions from which no choice leads to an end.
fn endless(spec: &GraphSpec, positions: &Positions, findings: &mut Findings) {
    let ends = positions.ending();
    let Some(trap) = (0..positions.count()).find(|at| !ends[*at]) else { return };
    let Some((join, cycle)) = cycle(spec, positions, trap) else { return };
    let Some(to) = target(spec, join) else { return };
    let who = if ends.contains(&true) { "a run can never end" } else { "no run ever ends" };
    let (way, round) = (path(spec, positions, &positions.path(trap)), steps(spec, positions, &cycle));
    let message = format!(
        "{who} after `{way}`, because this join into `{}` fires again and again whatever the routes choose (`{round}`): \
         select an edge of this loop with a route that can also lead to END",
        spec.nodes[to].name
    );
    findings.push(ShapeRule::NoRest, [SpecSite::Edge(join)], message);
}

/// Returns a join that fires again and again, and a shortest path from the position at which it fires back to it.
fn cycle(spec: &GraphSpec, positions: &Positions, trap: usize) -> Option<(usize, Vec<usize>)> {
    // The positions that a run cannot leave are those that lead back to each of their successors.
    let mut at = trap;
    let after = loop {
        let after = positions.after(at);
        let leads = positions.leading_to(vec![at]);
        match (0..positions.count()).rev().find(|other| after[*other] && !leads[*other]) {
            Some(deeper) => at = deeper,
            None => break after,
        }
    };
    let mut kept = (0..positions.count()).filter(|at| after[*at]);
    let (join, fired) = kept.find_map(|at| {
        let running = positions.running(at);
        let mut full = positions.joins().zip(positions.full(at)).filter(|(_, is_full)| *is_full);
        let fired = full.find(|(join, _)| target(spec, *join).is_some_and(|to| running.contains(&to)));
        fired.map(|(join, _)| (join, at))
    })?;
    let back = positions.path_between(fired, fired)?;
    Some((join, std::iter::once(fired).chain(back).collect()))
}

fn target(spec: &GraphSpec, join: usize) -> Option<usize> {
    match spec.edges[join] {
        EdgeSpec::Join { to: Target::Node(to), .. } => Some(to),
        _ => None,
    }
}

/// Finds joins all of whose sources run, but not all in one run.
fn dead_joins(spec: &GraphSpec, positions: &Positions, findings: &mut Findings) {
    let (mut fires, mut runs) = (vec![false; spec.edges.len()], vec![false; spec.nodes.len()]);
    for at in 0..positions.count() {
        positions.running(at).into_iter().for_each(|node| runs[node] = true);
        for (join, is_full) in positions.joins().zip(positions.full(at)) {
            fires[join] |= is_full;
        }
    }
    for join in positions.joins().filter(|join| !fires[*join]) {
        let EdgeSpec::Join { from, .. } = &spec.edges[join] else { continue };
        // A dead join earlier in the graph is the cause.
        if from.iter().any(|node| !runs[*node]) {
            continue;
        }
        let furthest = (0..positions.count()).min_by_key(|at| positions.missing(*at, join).len());
        let Some(furthest) = furthest else { continue };
        let missing = positions.missing(furthest, join);
        let names: Vec<String> = missing.iter().map(|node| format!("`{}`", spec.nodes[*node].name)).collect();
        let message = format!(
            "this join can never fire, because no run runs all its sources (after `{}` it waits for {} forever): write an \
             edge from each source to the target instead of a join",
            path(spec, positions, &positions.path(furthest)),
            names.join(" and ")
        );
        let sites = from.iter().enumerate().filter(|(_, node)| missing.contains(node));
        let sites: Vec<SpecSite> = sites.map(|(place, _)| SpecSite::JoinSource(join, place)).collect();
        findings.push(ShapeRule::DeadJoin, sites, message);
    }
}
