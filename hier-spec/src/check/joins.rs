//! Joins that can never fire.

use std::collections::BTreeSet;

use super::{Findings, ShapeRule, SpecSite};
use crate::reach::{Reachability, Transition};
use crate::{EdgeSpec, GraphSpec, List, Source, Target};

/// The edge, the sources and the target of a join.
type Join<'a> = (usize, &'a List<usize>, usize);

/// Reports the joins that can never fire. Returns their targets, which must not be reported again as unreachable.
pub(super) fn dead(
    spec: &GraphSpec,
    reach: &Reachability,
    reached: &[bool],
    findings: &mut Findings,
) -> BTreeSet<usize> {
    // A join into END runs no node.
    let joins = spec.edges.iter().enumerate().filter_map(|(index, edge)| match edge {
        EdgeSpec::Join { from, to: Target::Node(to) } => Some((index, from, *to)),
        _ => None,
    });
    let (lost, mut alive): (Vec<Join<'_>>, Vec<Join<'_>>) =
        joins.partition(|(_, from, _)| from.iter().any(|node| !reached[*node]));
    for join in &lost {
        lost_sources(spec, join, reached, findings);
    }
    // A dead join makes no other join fire, so the search is repeated without it.
    let mut dead: Vec<Join<'_>> = lost;
    let routes = Routes::new(spec, reach);
    while !alive.is_empty() {
        let without: BTreeSet<usize> = dead.iter().map(|(edge, ..)| *edge).collect();
        let arms = routes.arms(reach, &without);
        let before = dead.len();
        alive.retain(|join| {
            let Some((route, second, first)) = routes.excluded(join, &arms) else { return true };
            excluding_sources(spec, join.0, route, [(second, join.1[second]), (first, join.1[first])], findings);
            dead.push(*join);
            false
        });
        if dead.len() == before {
            break;
        }
    }
    dead.into_iter().map(|(.., to)| to).collect()
}

fn lost_sources(spec: &GraphSpec, (join, from, _): &Join<'_>, reached: &[bool], findings: &mut Findings) {
    for (position, node) in from.iter().enumerate().filter(|(_, node)| !reached[**node]) {
        let name = &spec.nodes[*node].name;
        let message = format!(
            "this join can never fire, because its source `{name}` can never run: add an edge to `{name}`, or remove it \
             from the join"
        );
        findings.push(ShapeRule::DeadJoin, [SpecSite::JoinSource(*join, position), SpecSite::Node(*node)], message);
    }
}

fn excluding_sources(
    spec: &GraphSpec,
    join: usize,
    route: usize,
    [(second, b), (first, a)]: [(usize, usize); 2],
    findings: &mut Findings,
) {
    let EdgeSpec::Route { label, .. } = &spec.edges[route] else { return };
    let (a, b) = (&spec.nodes[a].name, &spec.nodes[b].name);
    let message = format!(
        "this join can never fire, because `{a}` and `{b}` follow different arms of `{label}`, and a run takes only one: \
         write an edge from each to the target instead of a join"
    );
    let sites = [SpecSite::JoinSource(join, second), SpecSite::JoinSource(join, first), SpecSite::Edge(route)];
    findings.push(ShapeRule::DeadJoin, sites, message);
}

/// The routes that a run evaluates at most once, so that it takes only one arm. Each has the index of its edge and the
/// number of its arms.
struct Routes(Vec<(usize, usize)>);

/// The arm without which a node cannot run, for each route and each node.
type Arms = Vec<Vec<Option<usize>>>;

impl Routes {
    fn new(spec: &GraphSpec, reach: &Reachability) -> Self {
        let once = reach.passed_once();
        let routes = spec.edges.iter().enumerate().filter_map(|(index, edge)| match edge {
            EdgeSpec::Route { from, arms, .. } => {
                let passed_once = match from {
                    Source::Start => true,
                    Source::Node(node) => once[*node],
                };
                (passed_once && arms.len() > 1).then_some((index, arms.len()))
            }
            _ => None,
        });
        Self(routes.collect())
    }

    /// Computes the arms without these edges, with one search per arm.
    fn arms(&self, reach: &Reachability, without: &BTreeSet<usize>) -> Arms {
        let kept = |way: &Transition| way.edge.is_none_or(|edge| !without.contains(&edge));
        let reached = reach.reachable(kept);
        let arms = self.0.iter().map(|(route, arms)| {
            let mut only = vec![None; reached.len()];
            for arm in 0..*arms {
                let still = reach.reachable(|way| kept(way) && way.choice() != Some((*route, arm)));
                for node in (0..reached.len()).filter(|node| reached[*node] && !still[*node]) {
                    only[node].get_or_insert(arm);
                }
            }
            only
        });
        arms.collect()
    }

    /// Returns a route whose arms exclude two sources of the join, and the positions of these sources, the second
    /// source first. A path from the join back to a source does not count, because the join fires only after the source
    /// has run.
    fn excluded(&self, (_, from, _): &Join<'_>, arms: &Arms) -> Option<(usize, usize, usize)> {
        let pair = |only: &Vec<Option<usize>>| {
            let mut behind = from.iter().enumerate().filter_map(|(position, node)| Some((position, only[*node]?)));
            let (first, arm) = behind.next()?;
            behind.find(|(_, other)| *other != arm).map(|(second, _)| (second, first))
        };
        let pairs = self.0.iter().zip(arms).filter_map(|((route, _), only)| {
            let (second, first) = pair(only)?;
            Some((*route, second, first))
        });
        pairs.min_by_key(|(_, second, first)| (*second, *first))
    }
}
