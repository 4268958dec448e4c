//! Random graphs, and a comparison of the rules with everything that can happen in them.
//!
//! `HIER_GRAPHS` is the number of graphs, `HIER_SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};

use hier_spec::positions::Positions;
use hier_spec::{
    ArmSpec, ArmTarget, EdgeSpec, Finding, Goto, GraphSpec, NodeSpec, ShapeRule, Source, SpecSite, Target, Text, check,
};

/// Numbers that look random (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("below the limit")
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A graph of up to five nodes, `n0` to `n4`.
pub(crate) fn graph(random: &mut Numbers) -> GraphSpec {
    let count = 1 + random.below(5);
    let target = |random: &mut Numbers| match random.below(count + 1) {
        node if node < count => Target::Node(node),
        _ => Target::End,
    };
    let source = |random: &mut Numbers| match random.below(count + 1) {
        node if node < count => Source::Node(node),
        _ => Source::Start,
    };
    let targets = |random: &mut Numbers| {
        (0..=random.below(2)).map(|_| target(random)).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let nodes: Vec<NodeSpec> = (0..count)
        .map(|index| NodeSpec {
            name: format!("n{index}").into(),
            defer: random.one_in(12),
            goto: Goto::Only(if random.one_in(10) { targets(random) } else { Vec::new().into() }),
            writes: if random.one_in(3) { vec![Text::Borrowed("x")].into() } else { Vec::new().into() },
            ..NodeSpec::new("")
        })
        .collect();
    let mut edges = vec![EdgeSpec::Plain { from: Source::Start, to: Target::Node(0) }];
    for number in 0..=random.below(8) {
        edges.push(match random.below(8) {
            0..4 => EdgeSpec::Plain { from: source(random), to: target(random) },
            4 if count > 1 => {
                let first = random.below(count);
                let second = (first + 1 + random.below(count - 1)) % count;
                EdgeSpec::Join { from: vec![first, second].into(), to: target(random) }
            }
            5 => {
                let arms =
                    vec![ArmSpec { label: "items".into(), to: vec![ArmTarget::Send(random.below(count))].into() }];
                EdgeSpec::Route { from: source(random), label: format!("r{number}").into(), arms: arms.into() }
            }
            _ => {
                let arms: Vec<ArmSpec> = (0..2 + random.below(2))
                    .map(|arm| ArmSpec {
                        label: format!("{arm}").into(),
                        to: (0..=random.below(2))
                            .map(|_| ArmTarget::Go(target(random)))
                            .collect::<BTreeSet<_>>()
                            .into_iter()
                            .collect(),
                    })
                    .collect();
                EdgeSpec::Route { from: source(random), label: format!("r{number}").into(), arms: arms.into() }
            }
        });
    }
    GraphSpec {
        name: "graph".into(),
        doc: "".into(),
        nodes: nodes.into(),
        edges: edges.into(),
        interrupt_before: Vec::new().into(),
        interrupt_after: Vec::new().into(),
    }
}

/// The targets of a task that chooses them. Two equal Sends are two or more items.
pub(crate) type Way = Vec<ArmTarget>;

/// The choices of a task: each of its routes and commands takes one of the ways.
pub(crate) fn choices(spec: &GraphSpec, from: Source) -> Vec<Vec<Way>> {
    let mut choices = Vec::new();
    for edge in spec.edges.iter() {
        if let EdgeSpec::Route { from: other, arms, .. } = edge
            && *other == from
        {
            choices.push(arms.iter().flat_map(|arm| of_arm(&arm.to)).collect());
        }
    }
    if let Source::Node(node) = from
        && let Goto::Only(targets) = &spec.nodes[node].goto
    {
        for to in targets.iter() {
            choices.push(vec![Vec::new(), vec![ArmTarget::Go(*to)]]);
            if let Target::Node(node) = to {
                let send = ArmTarget::Send(*node);
                choices.push(vec![Vec::new(), vec![send], vec![send, send]]);
            }
        }
    }
    choices
}

/// An arm that sends has zero, one or several items.
fn of_arm(targets: &[ArmTarget]) -> Vec<Way> {
    let (sends, goes): (Vec<ArmTarget>, Vec<ArmTarget>) =
        targets.iter().partition(|to| matches!(to, ArmTarget::Send(_)));
    let items = if sends.is_empty() { 0..1 } else { 0..3 };
    items.map(|items| [goes.clone(), sends.repeat(items)].concat()).collect()
}

/// A set of nodes, one bit each.
pub(crate) type Set = u8;

pub(crate) const fn bit(node: usize) -> Set {
    1 << node
}

/// Everything that can happen: where a run can stand between two steps, and where it can go on from there.
#[derive(Default)]
pub(crate) struct Seen {
    /// For each place the nodes that run there, and the places that can follow.
    pub(crate) places: Vec<(Set, Vec<usize>)>,
    /// The joins that have been full, by their edges.
    pub(crate) fired: BTreeSet<usize>,
}

impl Seen {
    /// The places from which a run can come to rest.
    fn rests(&self) -> Vec<bool> {
        let mut rests: Vec<bool> = self.places.iter().map(|(_, next)| next.is_empty()).collect();
        loop {
            let more: Vec<usize> = (0..rests.len())
                .filter(|place| !rests[*place] && self.places[*place].1.iter().any(|next| rests[*next]))
                .collect();
            if more.is_empty() {
                return rests;
            }
            for place in more {
                rests[place] = true;
            }
        }
    }

    /// The places at which a node runs.
    fn running(&self, node: usize) -> impl Iterator<Item = usize> {
        let runs = move |(_, (nodes, _)): &(usize, &(Set, Vec<usize>))| nodes & bit(node) != 0;
        self.places.iter().enumerate().filter(runs).map(|(place, _)| place)
    }

    /// Panics if a finding is wrong. Returns true if it was judged.
    fn bears_out(&self, spec: &GraphSpec, finding: &Finding, rests: &[bool]) -> bool {
        let is_right = match (finding.rule, finding.sites.as_slice()) {
            (ShapeRule::Unreachable, [SpecSite::Node(node), ..]) => self.running(*node).next().is_none(),
            (ShapeRule::DeadJoin, [SpecSite::JoinSource(join, _), ..]) => !self.fired.contains(join),
            (ShapeRule::NoRest, [SpecSite::Edge(edge), ..]) => match &spec.edges[*edge] {
                EdgeSpec::Plain { from: Source::Node(node), .. } | EdgeSpec::Route { from: Source::Node(node), .. } => {
                    self.running(*node).all(|place| !rests[place])
                }
                EdgeSpec::Join { to: Target::Node(node), .. } => self.running(*node).any(|place| !rests[place]),
                _ => panic!("a loop contains neither START nor END: {finding:?}"),
            },
            (ShapeRule::TwoWriters, [SpecSite::Write(b, _), SpecSite::Write(a, _)]) => self.run_together(*a, *b),
            _ => return false,
        };
        assert!(is_right, "{finding:#?} is wrong in {spec:#?}");
        true
    }

    /// Returns true if one of two nodes never runs without the other.
    fn run_together(&self, a: usize, b: usize) -> bool {
        let needs = |a: usize, b: usize| {
            self.running(a).next().is_some() && self.running(a).all(|place| self.places[place].0 & bit(b) != 0)
        };
        needs(a, b) || needs(b, a)
    }

    /// Returns the mistake that the rules have missed in a graph that they accept.
    fn missed(&self, spec: &GraphSpec, rests: &[bool]) -> Option<String> {
        if rests.iter().any(|rests| !rests) {
            return Some("a run can never end".to_owned());
        }
        if let Some(node) = (0..spec.nodes.len()).find(|node| self.running(*node).next().is_none()) {
            return Some(format!("n{node} never runs"));
        }
        let mut joins = spec.edges.iter().enumerate().filter(|(_, edge)| is_join(edge)).map(|(join, _)| join);
        joins.find(|join| !self.fired.contains(join)).map(|join| format!("join {join} never fires"))
    }

    /// Returns a writer of `x` that the rules judge wrongly.
    fn misjudged(&self, writers: &[usize], findings: &[Finding]) -> Option<String> {
        let wrong = writers.iter().enumerate().find(|(place, second)| {
            let expected = writers[..*place].iter().any(|first| self.run_together(*first, **second));
            let is_found = findings.iter().any(|finding| {
                finding.rule == ShapeRule::TwoWriters && finding.sites[0] == SpecSite::Write(**second, 0)
            });
            is_found != expected
        });
        wrong.map(|(_, second)| format!("n{second} writes `x` with an earlier node, or is wrongly said to"))
    }
}

fn is_join(edge: &EdgeSpec) -> bool {
    matches!(edge, EdgeSpec::Join { to: Target::Node(_), .. })
}

/// The nodes of joins into nodes.
fn joined(spec: &GraphSpec) -> Vec<usize> {
    let nodes = spec.edges.iter().flat_map(|edge| match edge {
        EdgeSpec::Join { from, to: Target::Node(to) } => [&**from, &[*to]].concat(),
        _ => Vec::new(),
    });
    nodes.collect()
}

fn given(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Compares the rules with what is explored of this many graphs: each finding is right, and no mistake is missing
/// within the bound of the rules. Graphs that are too large to explore are skipped.
pub(crate) fn hold(graphs: u64, explore: impl Fn(&GraphSpec) -> Option<Seen>) {
    let mut random = Numbers(given("HIER_SEED", 1));
    let graphs = given("HIER_GRAPHS", graphs);
    let (mut judged, mut accepted, mut skipped, mut beyond) = (BTreeMap::<String, usize>::new(), 0, 0, 0);
    for _ in 0..graphs {
        let spec = graph(&mut random);
        let findings = check(&spec);
        let Some(seen) = explore(&spec) else {
            skipped += 1;
            continue;
        };
        let rests = seen.rests();
        for finding in &findings {
            if seen.bears_out(&spec, finding, &rests) {
                *judged.entry(format!("{:?}", finding.rule)).or_default() += 1;
            }
        }
        let mut missed = Vec::new();
        let writers: Vec<usize> = (0..spec.nodes.len()).filter(|node| !spec.nodes[*node].writes.is_empty()).collect();
        missed.extend(seen.misjudged(&writers, &findings).map(|missed| (missed, writers)));
        if findings.iter().all(|finding| finding.rule == ShapeRule::TwoWriters) {
            accepted += 1;
            missed.extend(seen.missed(&spec, &rests).map(|missed| (missed, joined(&spec))));
        }
        for (missed, goals) in missed {
            assert!(Positions::explore(&spec, &goals).is_none(), "{missed}: {spec:#?}");
            beyond += 1;
        }
    }
    println!("{judged:?}; accepted {accepted}, skipped {skipped}, beyond the bound {beyond}");
    assert!(beyond * 1_000 <= graphs, "{beyond} graphs are beyond the bound");
    for rule in ["Unreachable", "DeadJoin", "NoRest", "TwoWriters"] {
        assert!(judged.contains_key(rule), "{rule} was never judged: {judged:?}");
    }
    assert!(accepted > 0);
}
