//! Checks the rules of graphs, and the model of a step behind them, against the engine's own position: explores all choices of routes,
//! Sends and commands in random graphs. A simulation in hier-spec covers more graphs in the same time, but only this one is the code that
//! runs.
//!
//! `HIER_GRAPHS` is the number of graphs and defaults to 1,000. `HIER_SEED` is the first seed.

#[path = "../../../hier-spec/tests/choices/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "hier-spec has the graphs and what is asked of them")]
mod choices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use choices::{Numbers, Seen, Set, Way, bit, choices, graph, hold};
use hier_spec::positions::{JoinMarks, Position as ModelPosition, StepModel};
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

/// The ways of the tasks of one node that happen together, for each choice.
type Outcomes = Vec<Vec<(NodeTasks, Way)>>;

/// The tasks of a node that edges or Sends have started: one, or two and more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeTasks {
    from: Source,
    pushed: bool,
    several: bool,
}

/// Returns every combination of an item of each list. None if there are too many.
fn product<T: Clone>(lists: &[Vec<Vec<T>>]) -> Option<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = vec![Vec::new()];
    for list in lists {
        if all.len() * list.len() > WAYS {
            return None;
        }
        all = all.iter().flat_map(|before| list.iter().map(|item| [before.as_slice(), item].concat())).collect();
    }
    Some(all)
}

impl<'a> Explored<'a> {
    fn new(spec: &'a GraphSpec) -> Self {
        let graph =
            program(spec.clone(), |_| Arc::new(|_: &DynState, _: &mut _| unreachable!("routes are taken by hand")));
        Self { spec, graph }
    }

    /// All choices of the tasks of a node, a way for each task. None if there are too many.
    fn ways(&self, tasks: NodeTasks) -> Option<Vec<Vec<Way>>> {
        let one: BTreeSet<Way> = product(&choices(self.spec, tasks.from))?.into_iter().collect();
        if !tasks.several {
            return Some(one.into_iter().map(|way| vec![way]).collect());
        }
        // No, one or two tasks take each of the ways. Further tasks add nothing.
        let counts: Vec<Vec<Vec<Way>>> =
            one.into_iter().map(|way| (0..3).map(|count| vec![way.clone(); count]).collect()).collect();
        Some(product(&counts)?.into_iter().filter(|ways| ways.len() > 1).collect())
    }

    /// The outcome of a task that chose this way.
    fn done(&self, tasks: NodeTasks, way: &Way) -> Applied<DynState> {
        let plan = &self.graph.plan;
        let mut destinations = Destinations::default();
        for to in way {
            match to {
                ArmTarget::Go(Target::Node(node)) => destinations.go.push(plan.rank(*node)),
                ArmTarget::Go(Target::End) => {}
                ArmTarget::Send(node) => destinations.sends.push(plan.rank(*node), SendArg::new(0)),
            }
        }
        let node = match tasks.from {
            Source::Start => None,
            Source::Node(node) => Some(plan.rank(node)),
        };
        let done = TaskOutcome { destinations: Some(Box::new(destinations)), ..TaskOutcome::input(Writes::default()) };
        Applied { node, pushed: tasks.pushed, done }
    }

    /// The positions after a step of these tasks. None if there are too many.
    fn after(&self, agenda: &NextTasks, tasks: &[NodeTasks], fired: &mut BTreeSet<usize>) -> Option<Vec<NextTasks>> {
        let outcomes = tasks.iter().map(|tasks| {
            let ways = self.ways(*tasks)?.into_iter();
            Some(ways.map(|ways| ways.into_iter().map(|way| (*tasks, way)).collect()).collect())
        });
        let outcomes: Option<Vec<Outcomes>> = outcomes.collect();
        let next = product(&outcomes?)?.into_iter().map(|chosen| {
            let mut position = Position::restore(&self.graph, agenda, false).expect("its own nodes and joins");
            let mut done = chosen.iter().map(|(tasks, way)| self.done(*tasks, way)).collect();
            position.apply(&self.graph, &mut (self.graph.initial)(), &mut done).expect("nothing is written");
            self.stand(&position, fired)
        });
        Some(next.collect())
    }

    /// The stored form of a position, without the last node. Of three or more Sends to a node, two are kept.
    fn stand(&self, position: &Position<DynState>, fired: &mut BTreeSet<usize>) -> NextTasks {
        let mut agenda = position.agenda(&self.graph).expect("numbers can be encoded");
        agenda.last = NextTasks::default().last;
        agenda.tied.clear();
        agenda.sends.sort_by(|a: &SendRecord, b| a.node.cmp(&b.node));
        let nodes: Vec<_> = agenda.sends.iter().map(|send| send.node.clone()).collect();
        let mut place = 0..;
        agenda.sends.retain(|send| place.next().is_some_and(|place| place < 2 || nodes[place - 2] != send.node));
        for (edge, marks) in self.read(&agenda).joins.into_iter().enumerate() {
            let (edge, from) = self.joins().nth(edge).expect("a join of the graph");
            if marks.seen.len() == from.len() {
                fired.insert(edge);
            }
        }
        agenda
    }

    /// The joins into nodes: their edges and sources.
    fn joins(&self) -> impl Iterator<Item = (usize, BTreeSet<usize>)> {
        self.spec.edges.iter().enumerate().filter_map(|(edge, join)| match join {
            EdgeSpec::Join { from, to: Target::Node(_) } => Some((edge, from.iter().copied().collect())),
            _ => None,
        })
    }

    /// The position in the form of the model.
    fn read(&self, agenda: &NextTasks) -> ModelPosition {
        let node = |name: &Arc<str>| self.spec.node(name).expect("a node of the graph");
        let nodes = |names: &[Arc<str>]| names.iter().map(node).collect::<Vec<_>>();
        let sent: Vec<usize> = agenda.sends.iter().map(|send| node(&send.node)).collect();
        let several = sent.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        let joins = self.graph.plan.joins.iter().map(|join| {
            let record = agenda.joins.iter().find(|record| record.join == join.name);
            record.map_or_else(JoinMarks::default, |record| {
                let seen: BTreeSet<usize> = record.seen.iter().map(node).collect();
                JoinMarks { seen: seen.into_iter().collect(), released: record.released }
            })
        });
        ModelPosition {
            ready: nodes(&agenda.ready),
            sent: sent.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            several,
            waiting: nodes(&agenda.waiting),
            released: nodes(&agenda.released),
            joins: joins.collect(),
        }
    }

    /// The tasks of the next step. Two Sends to a node stand for two or more.
    fn tasks(&self, agenda: &NextTasks) -> Vec<NodeTasks> {
        let node = |name: &str| Source::Node(self.spec.node(name).expect("a node of the graph"));
        let position = Position::restore(&self.graph, agenda, false).expect("its own nodes and joins");
        let mut all: Vec<NodeTasks> = Vec::new();
        for key in position.tasks(1) {
            let (from, pushed) = (node(self.graph.plan.name(key.node)), key.send.is_some());
            match all.last_mut() {
                Some(last) if last.from == from && last.pushed && pushed => last.several = true,
                _ => all.push(NodeTasks { from, pushed, several: false }),
            }
        }
        all
    }

    /// Explores all positions, and passes each with those that can follow it. None if there are too many.
    fn explore(&self, mut visit: impl FnMut(Option<&NextTasks>, &[NextTasks])) -> Option<Seen> {
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
        let start = NodeTasks { from: Source::Start, pushed: false, several: false };
        let first = self.after(&NextTasks::default(), &[start], &mut seen.fired)?;
        visit(None, &first);
        for agenda in first {
            number(agenda, &mut found);
        }
        while seen.places.len() < found.len() {
            if found.len() > MOST {
                return None;
            }
            let agenda = found[seen.places.len()].clone();
            let tasks = self.tasks(&agenda);
            let running = tasks.iter().fold(0, |running: Set, tasks| match tasks.from {
                Source::Node(node) => running | bit(node),
                Source::Start => running,
            });
            let next = if tasks.is_empty() { Vec::new() } else { self.after(&agenda, &tasks, &mut seen.fired)? };
            if !tasks.is_empty() {
                visit(Some(&agenda), &next);
            }
            let next: BTreeSet<usize> = next.into_iter().map(|agenda| number(agenda, &mut found)).collect();
            seen.places.push((running, next.into_iter().collect()));
        }
        Some(seen)
    }
}

#[test]
fn rules_agree_with_the_engine_for_all_choices() {
    hold(1_000, |spec| Explored::new(spec).explore(|_, _| {}));
}

#[test]
fn every_step_of_the_engine_is_a_step_of_the_model_and_conversely() {
    let (mut random, mut steps, mut joined, mut beyond) = (Numbers(7), 0, 0, 0);
    for _ in 0..1_000 {
        let spec = graph(&mut random);
        let Some(model) = StepModel::new(&spec, |_| true) else {
            beyond += 1;
            continue;
        };
        let explored = Explored::new(&spec);
        explored.explore(|agenda, next| {
            let at = agenda.map(|agenda| explored.read(agenda));
            let expected: BTreeSet<ModelPosition> = next.iter().map(|agenda| explored.read(agenda)).collect();
            let found = at.as_ref().map_or_else(|| model.first_positions(), |at| model.next_positions(at));
            // None: too many choices.
            let Some(found) = found else { return beyond += 1 };
            let found: BTreeSet<ModelPosition> = found.into_iter().collect();
            assert_eq!(found, expected, "after {at:?} in {spec:#?}");
            steps += expected.len();
            joined += usize::from(expected.iter().any(|at| at.joins.iter().any(|join| !join.seen.is_empty())));
        });
    }
    println!("{steps} steps, {joined} with joins");
    assert!(steps > 10_000 && joined > 500, "{steps} steps, {joined} with joins");
    assert!(beyond < 50, "{beyond} graphs and positions have too many choices");
}
