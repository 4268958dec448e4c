//! Joins that can never fire.

use std::collections::BTreeSet;

use super::{Findings, Rule, Site};
use crate::reach::{Way, Ways};
use crate::{EdgeSpec, GraphSpec, List, Source, Target};

/// A join into a node: its edge, its sources, its target.
type Join<'a> = (usize, &'a List<usize>, usize);

/// Returns the targets of joins that were reported, which need no second report as unreachable.
pub(super) fn dead(spec: &GraphSpec, ways: &Ways, reached: &[bool], findings: &mut Findings) -> BTreeSet<usize> {
    // A join into END runs nothing, so it cannot fail to.
    let joins = spec.edges.iter().enumerate().filter_map(|(index, edge)| match edge {
        EdgeSpec::Join { from, to: Target::Node(to) } => Some((index, from, *to)),
        _ => None,
    });
    let (lost, mut alive): (Vec<Join<'_>>, Vec<Join<'_>>) =
        joins.partition(|(_, from, _)| from.iter().any(|node| !reached[*node]));
    for join in &lost {
        lost_sources(spec, join, reached, findings);
    }
    // What a dead join leads to cannot make another join fire: so go on without it until no more are found.
    let mut dead: Vec<Join<'_>> = lost;
    let routes = Routes::new(spec, ways);
    while !alive.is_empty() {
        let without: BTreeSet<usize> = dead.iter().map(|(edge, ..)| *edge).collect();
        let arms = routes.arms(ways, &without);
        let before = dead.len();
        alive.retain(|join| {
            let Some((route, second, first)) = routes.excluded(ways, join, &arms, &without) else { return true };
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
            "this join can never fire: its source `{name}` can never run; lead an edge to `{name}` or take it out of \
             the join"
        );
        findings.push(Rule::DeadJoin, [Site::JoinSource(*join, position), Site::Node(*node)], message);
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
        "this join can never fire in one run: `{a}` and `{b}` lie behind different arms of `{label}`, of which a run takes \
         one; give each its own edge to the target instead of a join"
    );
    let sites = [Site::JoinSource(join, second), Site::JoinSource(join, first), Site::Edge(route)];
    findings.push(Rule::DeadJoin, sites, message);
}

/// The routes that a run passes once at most, so that it takes one of their arms: edge, number of arms.
struct Routes(Vec<(usize, usize)>);

/// For each route and each node: the arm without which the node cannot run.
type Arms = Vec<Vec<Option<usize>>>;

impl Routes {
    fn new(spec: &GraphSpec, ways: &Ways) -> Self {
        let once = ways.passed_once();
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

    /// The arms, with these edges left out. The work is done once a route, not once a pair of nodes.
    fn arms(&self, ways: &Ways, without: &BTreeSet<usize>) -> Arms {
        let kept = |way: &Way| way.edge.is_none_or(|edge| !without.contains(&edge));
        let reached = ways.reachable(kept);
        let arms = self.0.iter().map(|(route, arms)| {
            let mut only = vec![None; reached.len()];
            for arm in 0..*arms {
                let still = ways.reachable(|way| kept(way) && way.choice() != Some((*route, arm)));
                for node in (0..reached.len()).filter(|node| reached[*node] && !still[*node]) {
                    only[node].get_or_insert(arm);
                }
            }
            only
        });
        arms.collect()
    }

    /// The route whose arms exclude two of the join's sources, and the positions of these, the second first.
    fn excluded(
        &self,
        ways: &Ways,
        (edge, from, to): &Join<'_>,
        arms: &Arms,
        without: &BTreeSet<usize>,
    ) -> Option<(usize, usize, usize)> {
        let after = ways.after(*to);
        // What leads from the join back to its sources cannot make it fire for the first time.
        let own = (from.iter().any(|node| *node == *to || after[*node])).then(|| {
            let mut without = without.clone();
            without.insert(*edge);
            self.arms(ways, &without)
        });
        let arms = own.as_ref().unwrap_or(arms);
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
