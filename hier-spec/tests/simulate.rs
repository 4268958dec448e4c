//! Random graphs, judged by the rules and by a simulation of every choice of their routes, Sends and commands.
//!
//! The simulation shares no code with the model of the rules: triggered nodes run, joins remember their sources, and
//! deferred nodes wait until nothing else is triggered. hier-core makes the same comparison with its engine.
//!
//! `HIER_GRAPHS` is the number of graphs and defaults to 2,000. `HIER_SEED` is the first seed.

mod choices;

use std::collections::{BTreeMap, BTreeSet};

use choices::{Numbers, Seen, Set, bit, choices, graph, hold};
use hier_spec::positions::{Position, Positions, StepModel};
use hier_spec::{ArmTarget, EdgeSpec, GraphSpec, NodeSpec, Source, SpecSite, Target, check};

/// The position of a run between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stand {
    /// Nodes to run because an edge led to them.
    ready: Set,
    /// Nodes to run because they were sent something.
    sent: Set,
    /// The nodes that were sent several items.
    several: Set,
    waiting: Set,
    released: Set,
    /// For each join into a node: the sources that have run, and true if its deferred target was released.
    joins: [(Set, bool); MOST_JOINS],
}

/// The random graphs have at most nine edges that can be joins.
const MOST_JOINS: usize = 9;

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

    /// Consumes the triggers of a node.
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

    /// Every stand after a step. None if they are too many.
    fn after(&self, before: &Stand, is_start: bool, fired: &mut BTreeSet<usize>) -> Option<Vec<Stand>> {
        let (pulled, sent) = (self.nodes(before.ready), self.nodes(before.sent));
        let mut base = *before;
        (base.ready, base.sent, base.several) = (0, 0, 0);
        for node in &pulled {
            self.consume(&mut base, *node);
        }
        let start = is_start.then_some(Source::Start);
        for source in pulled.iter().chain(&sent).map(|node| Source::Node(*node)).chain(start) {
            self.follow(&mut base, source, fired);
        }
        let mut stands = vec![base];
        for source in pulled.into_iter().map(Source::Node).chain(start) {
            stands = self.chosen(&stands, source)?;
        }
        for node in sent {
            stands = self.chosen(&stands, Source::Node(node))?;
            if before.several & bit(node) != 0 {
                stands = self.chosen_often(&stands, Source::Node(node))?;
            }
        }
        Some(stands.into_iter().map(|stand| self.end(stand)).collect())
    }

    /// Every stand after the choices of one task.
    fn chosen(&self, stands: &[Stand], source: Source) -> Option<Vec<Stand>> {
        let mut stands = stands.to_vec();
        for ways in choices(self.spec, source) {
            let mut next = Vec::with_capacity(stands.len() * ways.len());
            for stand in &stands {
                for way in &ways {
                    let mut stand = *stand;
                    for to in way {
                        match to {
                            ArmTarget::Go(Target::Node(node)) => self.signal(&mut stand, *node),
                            ArmTarget::Go(Target::End) => {}
                            ArmTarget::Send(node) => {
                                stand.several |= stand.sent & bit(*node);
                                stand.sent |= bit(*node);
                            }
                        }
                    }
                    next.push(stand);
                }
            }
            stands = distinct(next);
            if stands.len() > MOST {
                return None;
            }
        }
        Some(stands)
    }

    /// Every stand after the choices of one or more further tasks.
    fn chosen_often(&self, stands: &[Stand], source: Source) -> Option<Vec<Stand>> {
        let mut all = self.chosen(stands, source)?;
        loop {
            let more = distinct([&*self.chosen(&all, source)?, &all].concat());
            if more.len() == all.len() {
                return Some(all);
            }
            all = more;
        }
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
        let mut fired = BTreeSet::new();
        let mut open = self.after(&Stand::default(), true, &mut fired)?;
        let mut known: BTreeMap<Stand, Vec<Stand>> = BTreeMap::new();
        while let Some(stand) = open.pop() {
            if known.contains_key(&stand) {
                continue;
            }
            if known.len() > MOST {
                return None;
            }
            let is_over = stand.ready | stand.sent == 0;
            let next = if is_over { Vec::new() } else { self.after(&stand, false, &mut fired)? };
            open.extend(&next);
            known.insert(stand, next);
        }
        let numbers: BTreeMap<&Stand, usize> = known.keys().zip(0..).collect();
        let place = |(stand, next): (&Stand, &Vec<Stand>)| {
            (stand.ready | stand.sent, next.iter().filter_map(|stand| numbers.get(stand).copied()).collect())
        };
        Some(Seen { places: known.iter().map(place).collect(), fired })
    }
}

fn distinct(mut stands: Vec<Stand>) -> Vec<Stand> {
    stands.sort_unstable();
    stands.dedup();
    stands
}

#[test]
fn rules_agree_with_a_simulation_of_all_choices() {
    hold(2_000, |spec| Model::new(spec).explore());
}

/// The graph behind a chain of nodes, which have the last indices.
fn behind_a_chain(spec: &GraphSpec, nodes: usize) -> GraphSpec {
    let (mut long, first) = (spec.clone(), spec.nodes.len());
    let node = |number| NodeSpec { name: format!("chain{number}").into(), ..NodeSpec::new("") };
    long.nodes.to_mut().extend((0..nodes).map(node));
    for edge in long.edges.to_mut() {
        if let EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } = edge
            && *from == Source::Start
        {
            *from = Source::Node(first + nodes - 1);
        }
    }
    let sources = [Source::Start].into_iter().chain((first..).map(Source::Node));
    let chain = sources.zip(first..first + nodes);
    long.edges.to_mut().extend(chain.map(|(from, to)| EdgeSpec::Plain { from, to: Target::Node(to) }));
    long
}

/// A set of nodes has a word for each 64 nodes.
#[test]
fn chain_before_a_graph_changes_no_finding() {
    let mut random = Numbers(5);
    let mut compared = 0;
    for _ in 0..500 {
        let spec = graph(&mut random);
        let long = behind_a_chain(&spec, 70);
        let all: Vec<usize> = (0..spec.nodes.len()).collect();
        if Positions::explore(&spec, &all).is_none() || Positions::explore(&long, &all).is_none() {
            continue;
        }
        // If the graph cannot end, neither can the nodes of the chain.
        let is_own = |sites: &[SpecSite]| !matches!(sites[0], SpecSite::Node(node) if node >= all.len());
        let places = |spec| {
            let findings = check(spec).into_iter().map(|finding| (finding.rule, finding.sites));
            findings.filter(|(_, sites)| is_own(sites)).collect::<Vec<_>>()
        };
        assert_eq!(places(&spec), places(&long), "{spec:#?}");
        compared += 1;
    }
    assert!(compared > 400, "{compared}");
}

/// Steps through all positions of a graph in readable form. Returns the nodes that run at each of them, in order.
fn stepped(spec: &GraphSpec) -> Option<Vec<Vec<usize>>> {
    let model = StepModel::new(spec, |_| true)?;
    let mut open = model.first_positions()?;
    let mut known = BTreeSet::new();
    while let Some(position) = open.pop() {
        let is_over = position.ready.is_empty() && position.sent.is_empty();
        if !is_over && !known.contains(&position) {
            open.extend(model.next_positions(&position)?);
        }
        known.insert(position);
    }
    let running = |at: &Position| at.ready.iter().chain(&at.sent).copied().collect::<BTreeSet<_>>();
    let mut places: Vec<Vec<usize>> = known.iter().map(|at| running(at).into_iter().collect()).collect();
    places.sort();
    Some(places)
}

#[test]
fn steps_of_the_model_lead_through_the_explored_positions() {
    let mut random = Numbers(7);
    let mut compared = 0;
    for _ in 0..300 {
        let spec = graph(&mut random);
        for spec in [behind_a_chain(&spec, 70), spec] {
            let all: Vec<usize> = (0..spec.nodes.len()).collect();
            let Some(positions) = Positions::explore(&spec, &all) else { continue };
            if positions.count() > 500 {
                continue;
            }
            let mut places: Vec<Vec<usize>> = (0..positions.count()).map(|at| positions.running(at)).collect();
            places.sort();
            assert_eq!(stepped(&spec), Some(places), "{spec:#?}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}
