//! Random graphs, judged by the rules and by the engine's own position, which is led through every choice that the graph's routes,
//! Sends and commands could make. A model in hier-spec judges more graphs in the same time; this one cannot differ from what runs.
//!
//! `HIER_GRAPHS` says how many graphs (1,000 unless given), `HIER_SEED` where to begin.

#[path = "../../../../hier-spec/tests/choices/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "hier-spec has the graphs and what is asked of them")]
mod choices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use choices::{Seen, Set, Way, bit, choices, hold};
use hier_spec::{ArmTarget, EdgeSpec, GraphSpec, Source, Target};

use super::tests::{Graph, program};
use super::{Applied, Position};
use crate::checkpoint::{NextTasks, SendRecord, codec};
use crate::engine::program::{Destinations, Done, SendArg};
use crate::state::{DynState, Writes};

/// More than this is not looked at.
const MOST: usize = 400;
/// Nor more ways on from one place.
const WAYS: usize = 300;

/// A graph that is explored: what is stored of a position is where a run stands.
struct Explored<'a> {
    spec: &'a GraphSpec,
    graph: Graph,
}

impl<'a> Explored<'a> {
    fn new(spec: &'a GraphSpec) -> Self {
        let graph =
            program(spec.clone(), |_| Arc::new(|_: &DynState, _: &mut _| unreachable!("routes are taken by hand")));
        Self { spec, graph }
    }

    /// Everything that a source can choose. None if that is too much.
    fn ways(&self, from: Source) -> Option<BTreeSet<Way>> {
        let mut all = BTreeSet::from([Way::new()]);
        for ways in choices(self.spec, from) {
            all = all.iter().flat_map(|before| ways.iter().map(|way| [before.as_slice(), way].concat())).collect();
            if all.len() > WAYS {
                return None;
            }
        }
        Some(all)
    }

    /// What a task did that chose this way. What it sends, it sends twice: each item may go another way.
    fn done(&self, from: Source, pushed: bool, way: &Way) -> Applied<DynState> {
        let plan = &self.graph.plan;
        let mut destinations = Destinations::default();
        for to in way {
            match to {
                ArmTarget::Go(Target::Node(node)) => destinations.go.push(plan.rank(*node)),
                ArmTarget::Go(Target::End) => {}
                ArmTarget::Send(node) => {
                    (0..2).for_each(|item| destinations.sends.push(plan.rank(*node), SendArg::new(item)));
                }
            }
        }
        let node = match from {
            Source::Start => None,
            Source::Node(node) => Some(plan.rank(node)),
        };
        let done = Done { destinations: Some(Box::new(destinations)), ..Done::input(Writes::default()) };
        Applied { node, pushed, done }
    }

    /// Where a run can stand after a step of these tasks. None if that is too much.
    fn after(
        &self,
        agenda: &NextTasks,
        tasks: &[(Source, bool)],
        fired: &mut BTreeSet<usize>,
    ) -> Option<Vec<NextTasks>> {
        let mut combined: Vec<Vec<Way>> = vec![Vec::new()];
        for (from, _) in tasks {
            let ways = self.ways(*from)?;
            combined = combined
                .iter()
                .flat_map(|before| ways.iter().map(move |way| [before.as_slice(), std::slice::from_ref(way)].concat()))
                .collect();
            if combined.len() > WAYS {
                return None;
            }
        }
        let next = combined.iter().map(|chosen| {
            let mut position = Position::restore(&self.graph, agenda, false).expect("its own nodes and joins");
            let tasks = tasks.iter().zip(chosen);
            let mut done = tasks.map(|((from, pushed), way)| self.done(*from, *pushed, way)).collect();
            position.apply(&self.graph, &mut (self.graph.initial)(), &mut done).expect("nothing is written");
            self.stand(&position, fired)
        });
        Some(next.collect())
    }

    /// Where a run stands: what is stored of it, without who ran last. Two tasks of a node can choose two ways; more add nothing.
    fn stand(&self, position: &Position<DynState>, fired: &mut BTreeSet<usize>) -> NextTasks {
        let mut agenda = position.agenda(&self.graph).expect("numbers can be encoded");
        agenda.last = NextTasks::default().last;
        agenda.tied.clear();
        agenda.sends.sort_by(|a: &SendRecord, b| (&a.node, &a.payload).cmp(&(&b.node, &b.payload)));
        agenda.sends.dedup();
        for (edge, join) in self.spec.edges.iter().enumerate() {
            let EdgeSpec::Join { from, to: Target::Node(to) } = join else { continue };
            let names: BTreeSet<&str> = from.iter().map(|node| &*self.spec.nodes[*node].name).collect();
            let target = format!(":{}", self.spec.nodes[*to].name);
            let is_full = |record: &&crate::checkpoint::JoinRecord| {
                record.join.ends_with(&target)
                    && record.seen.iter().map(|name| &**name).collect::<BTreeSet<_>>() == names
            };
            if agenda.joins.iter().any(|record| is_full(&record)) {
                fired.insert(edge);
            }
        }
        agenda
    }

    /// The tasks of the next step: each a node, and whether it was sent something.
    fn tasks(&self, agenda: &NextTasks) -> Vec<(Source, bool)> {
        let node = |name: &str| Source::Node(self.spec.node(name).expect("a node of the graph"));
        let position = Position::restore(&self.graph, agenda, false).expect("its own nodes and joins");
        let tasks: Vec<_> = position.tasks(1).collect();
        tasks.into_iter().map(|key| (node(self.graph.plan.name(key.node)), key.send.is_some())).collect()
    }

    /// Everything that can happen. None if that is too much.
    fn explore(&self) -> Option<Seen> {
        let mut seen = Seen::default();
        let mut numbers: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut found: Vec<NextTasks> = Vec::new();
        let mut number = |agenda: NextTasks, found: &mut Vec<NextTasks>| {
            let key = codec::encode(&agenda).expect("it can be encoded");
            *numbers.entry(key).or_insert_with(|| {
                found.push(agenda);
                found.len() - 1
            })
        };
        for agenda in self.after(&NextTasks::default(), &[(Source::Start, false)], &mut seen.fired)? {
            number(agenda, &mut found);
        }
        while seen.places.len() < found.len() {
            if found.len() > MOST {
                return None;
            }
            let agenda = found[seen.places.len()].clone();
            let tasks = self.tasks(&agenda);
            let running = tasks.iter().fold(0, |running: Set, (from, _)| match from {
                Source::Node(node) => running | bit(*node),
                Source::Start => running,
            });
            let next = if tasks.is_empty() { Vec::new() } else { self.after(&agenda, &tasks, &mut seen.fired)? };
            let next: BTreeSet<usize> = next.into_iter().map(|agenda| number(agenda, &mut found)).collect();
            seen.places.push((running, next.into_iter().collect()));
        }
        Some(seen)
    }
}

#[test]
fn what_the_rules_say_is_so_in_the_engine_whatever_is_chosen() {
    hold(1_000, |spec| Explored::new(spec).explore());
}
