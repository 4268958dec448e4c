//! Checks the rules of graphs against the engine's own position: explores all choices of routes, Sends and commands in random graphs. A
//! model in hier-spec covers more graphs in the same time, but only this one is the code that runs.
//!
//! `HIER_GRAPHS` is the number of graphs and defaults to 1,000. `HIER_SEED` is the first seed.

#[path = "../../../hier-spec/tests/choices/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "hier-spec has the graphs and what is asked of them")]
mod choices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use choices::{Seen, Set, Way, bit, choices, hold};
use hier_spec::{ArmTarget, EdgeSpec, GraphSpec, Source, Target};

use super::tests::{Graph, program};
use super::{Applied, Position};
use crate::checkpoint::{NextTasks, SendRecord, codec};
use crate::engine::program::{Destinations, SendArg, TaskOutcome};
use crate::state::{DynState, Writes};

/// Maximum number of positions per graph.
const MOST: usize = 400;
/// Maximum number of ways from one position.
const WAYS: usize = 300;

/// A graph that is explored. A position is identified by its stored form.
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

    /// All choices of a source. None if there are too many.
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

    /// The outcome of a task that chose this way. It sends everything twice, since each item may go another way.
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
        let done = TaskOutcome { destinations: Some(Box::new(destinations)), ..TaskOutcome::input(Writes::default()) };
        Applied { node, pushed, done }
    }

    /// The positions after a step of these tasks. None if there are too many.
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

    /// The stored form of a position, without the last node. Two tasks of a node can choose two ways. More tasks add nothing.
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

    /// The tasks of the next step: the node, and true if a Send started it.
    fn tasks(&self, agenda: &NextTasks) -> Vec<(Source, bool)> {
        let node = |name: &str| Source::Node(self.spec.node(name).expect("a node of the graph"));
        let position = Position::restore(&self.graph, agenda, false).expect("its own nodes and joins");
        let tasks: Vec<_> = position.tasks(1).collect();
        tasks.into_iter().map(|key| (node(self.graph.plan.name(key.node)), key.send.is_some())).collect()
    }

    /// Explores all positions. None if there are too many.
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
fn rules_hold_in_the_engine_for_all_choices() {
    hold(1_000, |spec| Explored::new(spec).explore());
}
