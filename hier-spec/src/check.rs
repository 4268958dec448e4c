//! The rules of a graph's shape. In the order in which they are checked:
//!
//! 1. [`Rule::NoEntry`]: an edge leaves START.
//! 2. [`Rule::DoubledEdge`]: no edge is given twice, and no list names a node twice.
//! 3. [`Rule::SameArms`]: a route has arms that differ.
//! 4. [`Rule::DeadJoin`]: a join can fire: all its sources can run, and no two of them exclude each other.
//! 5. [`Rule::Unreachable`]: every node can run.
//! 6. [`Rule::NoEnd`]: END can be reached from every node.
//! 7. [`Rule::TwoWriters`]: nodes that always run together do not declare writes of one channel. Whether that channel
//!    has a reducer, and so may have two writers, only the caller knows.
//! 8. [`Rule::SharedCalls`]: no `for` sends to a node whose graph keeps its state for the whole thread: its calls would run
//!    side by side over one state.

use std::collections::BTreeSet;

use crate::reach::{self, Way};
use crate::{ArmTarget, EdgeSpec, GraphSpec, List, NodeSpec, Source, Target, did_you_mean, together};

/// The rule that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing leaves START.
    NoEntry,
    /// An edge or a target is given twice.
    DoubledEdge,
    /// All arms of a route lead to the same place.
    SameArms,
    /// A join can never fire.
    DeadJoin,
    /// A node can never run.
    Unreachable,
    /// END cannot be reached from a node.
    NoEnd,
    /// Two nodes that always run together write one channel.
    TwoWriters,
    /// Items are sent to a node whose graph keeps its state for the whole thread.
    SharedCalls,
}

/// The place in the user's text that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The graph as a whole.
    Graph,
    /// A node, where it is declared.
    Node(usize),
    /// An edge as a whole: its target, or the function of a route.
    Edge(usize),
    /// A source of a join.
    JoinSource(usize, usize),
    /// A target of an arm: edge, arm, position.
    ArmTarget(usize, usize, usize),
    /// A declared write: node, position.
    Write(usize, usize),
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Every place that takes part, the one to mend first.
    pub sites: Vec<Site>,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// Everything that is wrong with the shape of a graph.
pub fn check(spec: &GraphSpec) -> Vec<Finding> {
    let ways = reach::ways(spec);
    let mut findings = Vec::new();
    no_entry(spec, &mut findings);
    if !findings.is_empty() {
        return findings; // everything else would be unreachable
    }
    doubled_edges(spec, &mut findings);
    same_arms(spec, &mut findings);
    let reached = reach::reachable(spec.nodes.len(), &ways, |_| true);
    let dead = dead_joins(spec, &ways, &reached, &mut findings);
    unreachable(spec, &reached, &dead, &mut findings);
    no_end(spec, &ways, &reached, &mut findings);
    two_writers(spec, &ways, &mut findings);
    shared_calls(spec, &mut findings);
    findings
}

fn no_entry(spec: &GraphSpec, findings: &mut Vec<Finding>) {
    let leaves = spec.edges.iter().any(|edge| match edge {
        EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } => *from == Source::Start,
        EdgeSpec::Join { .. } => false,
    });
    if !leaves {
        let first = spec.nodes.first().map_or("a_node", |node| &node.name);
        findings.push(Finding {
            rule: Rule::NoEntry,
            sites: vec![Site::Graph],
            message: format!("nothing leaves START: a run would have nowhere to begin; add `START >> {first}`"),
        });
    }
}

fn doubled_edges(spec: &GraphSpec, findings: &mut Vec<Finding>) {
    let mut seen: Vec<(Source, Target, usize)> = Vec::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        match edge {
            EdgeSpec::Plain { from, to } => {
                if let Some((.., first)) = seen.iter().find(|(f, t, _)| f == from && t == to) {
                    let (from, to) = (spec.source_name(*from), spec.target_name(*to));
                    findings.push(Finding {
                        rule: Rule::DoubledEdge,
                        sites: vec![Site::Edge(index), Site::Edge(*first)],
                        message: format!("the edge from `{from}` to `{to}` is given twice: remove one"),
                    });
                } else {
                    seen.push((*from, *to, index));
                }
            }
            EdgeSpec::Join { from, .. } => {
                for (position, node) in from.iter().enumerate() {
                    if let Some(first) = from[..position].iter().position(|other| other == node) {
                        findings.push(Finding {
                            rule: Rule::DoubledEdge,
                            sites: vec![Site::JoinSource(index, position), Site::JoinSource(index, first)],
                            message: format!("`{}` stands twice in this join: remove one", spec.nodes[*node].name),
                        });
                    }
                }
            }
            EdgeSpec::Route { arms, .. } => {
                for (number, arm) in arms.iter().enumerate() {
                    for (position, to) in arm.to.iter().enumerate() {
                        if let Some(first) = arm.to[..position].iter().position(|other| other == to) {
                            let sites =
                                [position, first].map(|position| Site::ArmTarget(index, number, position)).to_vec();
                            let name = spec.target_name(to.target());
                            let message = format!("`{name}` stands twice in this arm: remove one");
                            findings.push(Finding { rule: Rule::DoubledEdge, sites, message });
                        }
                    }
                }
            }
        }
    }
}

fn same_arms(spec: &GraphSpec, findings: &mut Vec<Finding>) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { from, label, arms } = edge else { continue };
        let targets: BTreeSet<BTreeSet<_>> = arms.iter().map(|arm| arm.to.iter().copied().collect()).collect();
        if arms.len() > 1 && targets.len() == 1 {
            let to: Vec<_> = arms[0].to.iter().map(|to| spec.target_name(to.target())).collect();
            let to = match to.as_slice() {
                [one] => (*one).to_owned(),
                several => format!("[{}]", several.join(", ")),
            };
            findings.push(Finding {
                rule: Rule::SameArms,
                sites: vec![Site::Edge(index)],
                message: format!(
                    "all arms of `{label}` lead to the same place, so it chooses nothing: write `{} >> {}`",
                    plain(spec.source_name(*from)),
                    plain(&to)
                ),
            });
        }
    }
}

/// Returns the targets of joins that were reported, which need no second report as unreachable.
fn dead_joins(spec: &GraphSpec, ways: &[Way], reached: &[bool], findings: &mut Vec<Finding>) -> BTreeSet<usize> {
    let mut dead = BTreeSet::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        // A join into END runs nothing, so it cannot fail to.
        let EdgeSpec::Join { from, to: Target::Node(to) } = edge else { continue };
        let before = findings.len();
        lost_sources(spec, index, from, reached, findings);
        if findings.len() == before {
            excluding_sources(spec, ways, index, from, findings);
        }
        if findings.len() > before {
            dead.insert(*to);
        }
    }
    dead
}

fn lost_sources(spec: &GraphSpec, join: usize, from: &List<usize>, reached: &[bool], findings: &mut Vec<Finding>) {
    for (position, node) in from.iter().enumerate().filter(|(_, node)| !reached[**node]) {
        let name = &spec.nodes[*node].name;
        findings.push(Finding {
            rule: Rule::DeadJoin,
            sites: vec![Site::JoinSource(join, position), Site::Node(*node)],
            message: format!(
                "this join can never fire: its source `{name}` can never run; lead an edge to `{name}` or take it out of \
                 the join"
            ),
        });
    }
}

fn excluding_sources(spec: &GraphSpec, ways: &[Way], join: usize, from: &List<usize>, findings: &mut Vec<Finding>) {
    for (second, b) in from.iter().enumerate() {
        for (first, a) in from[..second].iter().enumerate() {
            let Some(route) = (0..spec.edges.len()).find(|route| excludes(spec, ways, *route, *a, *b)) else {
                continue;
            };
            let EdgeSpec::Route { label, .. } = &spec.edges[route] else { continue };
            let (a, b) = (&spec.nodes[*a].name, &spec.nodes[*b].name);
            findings.push(Finding {
                rule: Rule::DeadJoin,
                sites: vec![Site::JoinSource(join, second), Site::JoinSource(join, first), Site::Edge(route)],
                message: format!(
                    "this join can never fire: `{a}` and `{b}` lie behind different arms of `{label}`, of which a run \
                     takes one; give each its own edge to the target instead of a join"
                ),
            });
        }
    }
}

/// Whether `a` and `b` can only be reached through different arms of this route, which a run passes once at most.
fn excludes(spec: &GraphSpec, ways: &[Way], route: usize, a: usize, b: usize) -> bool {
    let EdgeSpec::Route { from, arms, .. } = &spec.edges[route] else { return false };
    if !passed_once(spec, ways, *from) {
        return false;
    }
    let count = spec.nodes.len();
    let only_through = |node: usize| {
        (0..arms.len()).find(|arm| !reach::reachable(count, ways, |way| way.arm != Some((route, *arm)))[node])
    };
    matches!((only_through(a), only_through(b)), (Some(x), Some(y)) if x != y)
}

/// Whether a run passes this source once at most: it lies on no loop, and each node on the way to it has one way in.
fn passed_once(spec: &GraphSpec, ways: &[Way], source: Source) -> bool {
    let mut at = source;
    for _ in 0..=spec.nodes.len() {
        let Source::Node(node) = at else { return true };
        let mut into = ways.iter().filter(|way| way.to == Target::Node(node));
        let (Some(way), None) = (into.next(), into.next()) else { return false };
        if way.sends || way.from.len() > 1 || reach::after(spec.nodes.len(), ways, node)[node] {
            return false;
        }
        at = way.from[0];
    }
    false
}

fn unreachable(spec: &GraphSpec, reached: &[bool], dead: &BTreeSet<usize>, findings: &mut Vec<Finding>) {
    for (index, node) in spec.nodes.iter().enumerate() {
        if !reached[index] && !dead.contains(&index) {
            let name = &node.name;
            findings.push(Finding {
                rule: Rule::Unreachable,
                sites: vec![Site::Node(index)],
                message: format!(
                    "`{name}` can never run: no way leads from START to it; add an edge to `{name}`, name it in the \
                     `goto` of a node, or remove it"
                ),
            });
        }
    }
}

fn no_end(spec: &GraphSpec, ways: &[Way], reached: &[bool], findings: &mut Vec<Finding>) {
    let ends = reach::ending(spec.nodes.len(), ways);
    for (index, node) in spec.nodes.iter().enumerate() {
        if reached[index] && !ends[index] {
            let name = &node.name;
            findings.push(Finding {
                rule: Rule::NoEnd,
                sites: vec![Site::Node(index)],
                message: format!("END cannot be reached from `{name}`: add `{name} >> END`, or a way that leads there"),
            });
        }
    }
}

fn two_writers(spec: &GraphSpec, ways: &[Way], findings: &mut Vec<Finding>) {
    let class = together::classes(spec, ways);
    for (second, b) in spec.nodes.iter().enumerate() {
        for (first, a) in spec.nodes[..second].iter().enumerate() {
            if class[first] != class[second] {
                continue;
            }
            for (position, channel) in b.writes.iter().enumerate() {
                let Some(other) = a.writes.iter().position(|write| write == channel) else { continue };
                findings.push(Finding {
                    rule: Rule::TwoWriters,
                    sites: vec![Site::Write(second, position), Site::Write(first, other)],
                    message: format!(
                        "`{}` and `{}` always run in the same step and both write `{channel}`, which has no reducer: give \
                         `{channel}` a reducer, or let one of them run after the other",
                        a.name, b.name
                    ),
                });
            }
        }
    }
}

fn shared_calls(spec: &GraphSpec, findings: &mut Vec<Finding>) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { arms, .. } = edge else { continue };
        for (number, arm) in arms.iter().enumerate() {
            for (position, to) in arm.to.iter().enumerate() {
                let ArmTarget::Send(node) = *to else { continue };
                let NodeSpec { name, per_thread: true, .. } = &spec.nodes[node] else { continue };
                findings.push(Finding {
                    rule: Rule::SharedCalls,
                    sites: vec![Site::ArmTarget(index, number, position), Site::Node(node)],
                    message: format!(
                        "the items run side by side, and all of them would share the one state that `{name}` keeps for the \
                         whole thread: let it have `checkpoints: per_call`, or lead an edge to it instead"
                    ),
                });
            }
        }
    }
}

/// The name as it is written in the macro.
fn plain(name: &str) -> &str {
    match name {
        crate::START => "START",
        crate::END => "END",
        other => other,
    }
}

impl GraphSpec {
    /// The error text for a node name that does not exist.
    pub fn unknown_node(&self, name: &str) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        format!("there is no node `{name}`{}", did_you_mean(name, names))
    }
}
