//! Random graphs, and what the rules say of them held against everything that can happen, however that was found out.
//!
//! `HIER_GRAPHS` says how many graphs, `HIER_SEED` where to begin.

use std::collections::{BTreeMap, BTreeSet};

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
    let nodes: Vec<NodeSpec> = (0..count)
        .map(|index| NodeSpec {
            name: format!("n{index}").into(),
            defer: random.one_in(12),
            goto: Goto::Only(if random.one_in(10) { vec![target(random)].into() } else { Vec::new().into() }),
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

/// The targets of one choice of a source.
pub(crate) type Way = Vec<ArmTarget>;

/// The choices of a source: for each of its routes, and its command, the alternatives.
pub(crate) fn choices(spec: &GraphSpec, from: Source) -> Vec<Vec<Way>> {
    let mut choices = Vec::new();
    for edge in spec.edges.iter() {
        if let EdgeSpec::Route { from: other, arms, .. } = edge
            && *other == from
        {
            let mut ways: Vec<Way> = arms.iter().map(|arm| arm.to.to_vec()).collect();
            // There may be nothing to send.
            if ways.iter().flatten().all(|to| matches!(to, ArmTarget::Send(_))) {
                ways.push(Vec::new());
            }
            choices.push(ways);
        }
    }
    if let Source::Node(node) = from
        && let Goto::Only(targets) = &spec.nodes[node].goto
        && let Some(to) = targets.first()
    {
        let mut ways = vec![Vec::new(), vec![ArmTarget::Go(*to)]];
        if let Target::Node(node) = to {
            ways.push(vec![ArmTarget::Send(*node)]);
        }
        choices.push(ways);
    }
    choices
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

    /// Checks a finding. Returns true if it was judged.
    fn bears_out(&self, spec: &GraphSpec, finding: &Finding, rests: &[bool]) -> bool {
        let so = match (finding.rule, finding.sites.as_slice()) {
            (ShapeRule::Unreachable, [SpecSite::Node(node), ..]) => self.running(*node).next().is_none(),
            (ShapeRule::DeadJoin, [SpecSite::JoinSource(join, _), ..]) => !self.fired.contains(join),
            (ShapeRule::NoRest, [SpecSite::Edge(edge), ..]) => {
                let (EdgeSpec::Plain { from: Source::Node(node), .. }
                | EdgeSpec::Route { from: Source::Node(node), .. }) = &spec.edges[*edge]
                else {
                    panic!("a circle has no START: {finding:?}")
                };
                self.running(*node).all(|place| !rests[place])
            }
            (ShapeRule::TwoWriters, [SpecSite::Write(b, _), SpecSite::Write(a, _)]) => {
                self.places.iter().all(|(nodes, _)| (nodes & bit(*a) != 0) == (nodes & bit(*b) != 0))
            }
            _ => return false,
        };
        assert!(so, "{finding:#?} is not so in {spec:#?}");
        true
    }
}

fn given(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Holds the rules to what is explored of so many graphs: what they say is so, and nothing is missed of graphs without joins. None
/// is explored where that is too much.
pub(crate) fn hold(graphs: u64, explore: impl Fn(&GraphSpec) -> Option<Seen>) {
    let mut random = Numbers(given("HIER_SEED", 1));
    let (mut judged, mut ending, mut accepted) = (BTreeMap::<String, usize>::new(), 0, 0);
    for _ in 0..given("HIER_GRAPHS", graphs) {
        let spec = graph(&mut random);
        let findings = check(&spec);
        let Some(seen) = explore(&spec) else { continue };
        let rests = seen.rests();
        for finding in &findings {
            if seen.bears_out(&spec, finding, &rests) {
                *judged.entry(format!("{:?}", finding.rule)).or_default() += 1;
            }
        }
        // Nothing else is missed of graphs without joins: each node can run, and a run can come to rest from wherever it is.
        let joins = spec.edges.iter().any(|edge| matches!(edge, EdgeSpec::Join { .. }));
        if findings.iter().all(|finding| finding.rule == ShapeRule::TwoWriters) {
            accepted += 1;
            if !joins {
                ending += 1;
                assert!(rests.iter().all(|rests| *rests), "never rests: {spec:#?}");
                assert!((0..spec.nodes.len()).all(|node| seen.running(node).next().is_some()), "never runs: {spec:#?}");
            }
        }
    }
    println!("{judged:?}; accepted {accepted}, of these without joins {ending}");
    for rule in ["Unreachable", "DeadJoin", "NoRest", "TwoWriters"] {
        assert!(judged.contains_key(rule), "{rule} was never judged: {judged:?}");
    }
    assert!(ending > 0);
}
