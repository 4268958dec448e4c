//! Random graphs, judged by the rules and by a simulation of every choice that their routes, Sends and commands could
//! make. The simulation is a model of its own of how a run goes on: what was set off runs, joins remember, deferred nodes
//! wait until nothing else is left.
//!
//! `HIER_GRAPHS` says how many graphs (20,000 unless given), `HIER_SEED` where to begin.

use std::collections::{BTreeMap, BTreeSet};

use hier_spec::{
    ArmSpec, ArmTarget, EdgeSpec, Finding, Goto, GraphSpec, NodeSpec, Rule, Site, Source, Target, Text, check,
};

/// Numbers that look random (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("below the limit")
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

fn graph(random: &mut Numbers) -> GraphSpec {
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

/// A set of nodes or of places, one bit each.
type Set = u8;

const fn bit(place: usize) -> Set {
    1 << place
}

/// Where a run stands between two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stand {
    /// Nodes to run because an edge led to them.
    ready: Set,
    /// Nodes to run because they were sent something.
    sent: Set,
    waiting: Set,
    released: Set,
    /// Of each join into a node: which of its sources have run, and whether its deferred target was released.
    joins: Vec<(Set, bool)>,
}

/// A join into a node: its edge, its sources, its target.
struct Join {
    edge: usize,
    from: Vec<usize>,
    to: usize,
}

impl Join {
    fn full(&self) -> Set {
        (0..self.from.len()).map(bit).sum()
    }
}

struct Model<'a> {
    spec: &'a GraphSpec,
    joins: Vec<Join>,
}

/// More than this is not looked at.
const MOST: usize = 3_000;

impl<'a> Model<'a> {
    fn new(spec: &'a GraphSpec) -> Self {
        let joins = spec.edges.iter().enumerate().filter_map(|(edge, join)| match join {
            EdgeSpec::Join { from, to: Target::Node(to) } => Some(Join { edge, from: from.to_vec(), to: *to }),
            _ => None,
        });
        Self { spec, joins: joins.collect() }
    }

    fn signal(&self, stand: &mut Stand, node: usize) {
        if self.spec.nodes[node].defer {
            stand.waiting |= bit(node);
            stand.released &= !bit(node);
        } else {
            stand.ready |= bit(node);
        }
    }

    /// What triggered a node is used up.
    fn consume(&self, stand: &mut Stand, node: usize) {
        let defer = self.spec.nodes[node].defer;
        for (join, (seen, released)) in self.joins.iter().zip(&mut stand.joins) {
            if join.to == node && *seen == join.full() && (!defer || *released) {
                (*seen, *released) = (0, false);
            }
        }
        if stand.released & bit(node) != 0 {
            stand.released &= !bit(node);
            stand.waiting &= !bit(node);
        }
    }

    /// The plain edges and joins of a source.
    fn follow(&self, stand: &mut Stand, from: Source, fired: &mut BTreeSet<usize>) {
        for edge in self.spec.edges.iter() {
            if let EdgeSpec::Plain { from: other, to: Target::Node(to) } = edge
                && *other == from
            {
                self.signal(stand, *to);
            }
        }
        let Source::Node(node) = from else { return };
        for (index, join) in self.joins.iter().enumerate() {
            let Some(place) = join.from.iter().position(|source| *source == node) else { continue };
            if stand.joins[index].0 & bit(place) == 0 {
                stand.joins[index].0 |= bit(place);
                if stand.joins[index].0 == join.full() {
                    fired.insert(join.edge);
                    if !self.spec.nodes[join.to].defer {
                        stand.ready |= bit(join.to);
                    }
                }
            }
        }
    }

    /// What a source may choose: for each of its routes, and its command, the ways of which it takes one.
    fn choices(&self, from: Source) -> Vec<Vec<Vec<ArmTarget>>> {
        let mut choices = Vec::new();
        for edge in self.spec.edges.iter() {
            if let EdgeSpec::Route { from: other, arms, .. } = edge
                && *other == from
            {
                let mut ways: Vec<Vec<ArmTarget>> = arms.iter().map(|arm| arm.to.to_vec()).collect();
                // There may be nothing to send.
                if ways.iter().flatten().all(|to| matches!(to, ArmTarget::Send(_))) {
                    ways.push(Vec::new());
                }
                choices.push(ways);
            }
        }
        if let Source::Node(node) = from
            && let Goto::Only(targets) = &self.spec.nodes[node].goto
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

    /// Every stand after a step of these sources. None if they are too many.
    fn after(
        &self,
        before: &Stand,
        pulled: &[usize],
        ran: &[Source],
        fired: &mut BTreeSet<usize>,
    ) -> Option<Vec<Stand>> {
        let mut base = before.clone();
        (base.ready, base.sent) = (0, 0);
        for node in pulled {
            self.consume(&mut base, *node);
        }
        for source in ran {
            self.follow(&mut base, *source, fired);
        }
        let mut stands = BTreeSet::from([base]);
        for ways in ran.iter().flat_map(|source| self.choices(*source)) {
            let mut next = BTreeSet::new();
            for stand in &stands {
                for way in &ways {
                    let mut stand = stand.clone();
                    for to in way {
                        match to {
                            ArmTarget::Go(Target::Node(node)) => self.signal(&mut stand, *node),
                            ArmTarget::Go(Target::End) => {}
                            ArmTarget::Send(node) => stand.sent |= bit(*node),
                        }
                    }
                    next.insert(stand);
                }
            }
            stands = next;
            if stands.len() > MOST {
                return None;
            }
        }
        Some(stands.into_iter().map(|stand| self.end(stand)).collect())
    }

    /// Deferred nodes are released where nothing else was set off.
    fn end(&self, mut stand: Stand) -> Stand {
        if stand.ready != 0 {
            return stand;
        }
        stand.ready |= stand.waiting & !stand.released;
        stand.released |= stand.waiting;
        for (join, (seen, released)) in self.joins.iter().zip(&mut stand.joins) {
            if *seen == join.full() && !*released && self.spec.nodes[join.to].defer {
                *released = true;
                stand.ready |= bit(join.to);
            }
        }
        stand
    }

    fn nodes(&self, set: Set) -> Vec<usize> {
        (0..self.spec.nodes.len()).filter(|node| set & bit(*node) != 0).collect()
    }

    /// Everything that can happen. None if that is too much.
    fn explore(&self) -> Option<Seen> {
        let mut seen = Seen::default();
        let empty = Stand { joins: vec![(0, false); self.joins.len()], ..Stand::default() };
        let mut open = self.after(&empty, &[], &[Source::Start], &mut seen.fired)?;
        while let Some(stand) = open.pop() {
            if seen.next.contains_key(&stand) {
                continue;
            }
            if seen.next.len() > MOST {
                return None;
            }
            let ran: Vec<Source> = self.nodes(stand.ready | stand.sent).into_iter().map(Source::Node).collect();
            // A node runs once for an edge and once for a Send; what it chooses then may differ, which a third time would
            // not add to.
            let twice = self.nodes(stand.ready & stand.sent).into_iter().map(Source::Node);
            let ran: Vec<Source> = ran.into_iter().chain(twice).collect();
            let next = if ran.is_empty() {
                Vec::new()
            } else {
                self.after(&stand, &self.nodes(stand.ready), &ran, &mut seen.fired)?
            };
            open.extend(next.iter().cloned());
            seen.next.insert(stand, next);
        }
        Some(seen)
    }
}

/// What can happen.
#[derive(Default)]
struct Seen {
    next: BTreeMap<Stand, Vec<Stand>>,
    /// Joins that have been full.
    fired: BTreeSet<usize>,
}

impl Seen {
    /// The stands from which a run can come to rest.
    fn rests(&self) -> BTreeSet<&Stand> {
        let mut rests: BTreeSet<&Stand> =
            self.next.iter().filter(|(_, next)| next.is_empty()).map(|(stand, _)| stand).collect();
        loop {
            let before = rests.len();
            let more = self.next.iter().filter(|(_, next)| next.iter().any(|stand| rests.contains(stand)));
            let more: Vec<&Stand> = more.map(|(stand, _)| stand).collect();
            rests.extend(more);
            if rests.len() == before {
                return rests;
            }
        }
    }

    fn running(&self, node: usize) -> impl Iterator<Item = &Stand> {
        self.next.keys().filter(move |stand| (stand.ready | stand.sent) & bit(node) != 0)
    }
}

/// What a finding says is so. Returns whether it was judged.
fn holds(spec: &GraphSpec, finding: &Finding, seen: &Seen, rests: &BTreeSet<&Stand>) -> bool {
    let so = match (finding.rule, finding.sites.as_slice()) {
        (Rule::Unreachable, [Site::Node(node), ..]) => seen.running(*node).next().is_none(),
        (Rule::DeadJoin, [Site::JoinSource(join, _), ..]) => !seen.fired.contains(join),
        (Rule::NoRest, [Site::Edge(edge), ..]) => {
            let (EdgeSpec::Plain { from: Source::Node(node), .. } | EdgeSpec::Route { from: Source::Node(node), .. }) =
                &spec.edges[*edge]
            else {
                panic!("a circle has no START: {finding:?}")
            };
            seen.running(*node).all(|stand| !rests.contains(stand))
        }
        (Rule::TwoWriters, [Site::Write(b, _), Site::Write(a, _)]) => {
            let runs = |stand: &Stand, node: &usize| (stand.ready | stand.sent) & bit(*node) != 0;
            seen.next.keys().all(|stand| runs(stand, a) == runs(stand, b))
        }
        _ => return false,
    };
    assert!(so, "{finding:#?} is not so in {spec:#?}");
    true
}

fn given(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn what_the_rules_say_is_so_whatever_is_chosen() {
    let mut random = Numbers(given("HIER_SEED", 1));
    let (mut judged, mut ending, mut accepted) = (BTreeMap::<String, usize>::new(), 0, 0);
    for _ in 0..given("HIER_GRAPHS", 20_000) {
        let spec = graph(&mut random);
        let findings = check(&spec);
        let Some(seen) = Model::new(&spec).explore() else { continue };
        let rests = seen.rests();
        for finding in &findings {
            if holds(&spec, finding, &seen, &rests) {
                *judged.entry(format!("{:?}", finding.rule)).or_default() += 1;
            }
        }
        // Nothing else is missed of graphs without joins: each node can run, and a run can come to rest from wherever it is.
        let joins = spec.edges.iter().any(|edge| matches!(edge, EdgeSpec::Join { .. }));
        if findings.iter().all(|finding| finding.rule == Rule::TwoWriters) {
            accepted += 1;
            if !joins {
                ending += 1;
                assert!(seen.next.keys().all(|stand| rests.contains(stand)), "never rests: {spec:#?}");
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
