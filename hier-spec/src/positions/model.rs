//! The abstract superstep from one position to the next.

use std::ops::Range;

use super::choices::Choices;
use super::sets;
use super::ways::{Budget, Layout, Way, Ways, sent};
use crate::{EdgeSpec, GraphSpec, Source, Target};

/// A position of a run between two supersteps, in readable form. All lists of nodes are sorted and contain indices of
/// nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The nodes that an edge or a command has triggered.
    pub ready: Vec<usize>,
    /// The nodes that run because of Sends.
    pub sent: Vec<usize>,
    /// The nodes among `sent` that run more than once.
    pub several: Vec<usize>,
    /// The deferred nodes that have been triggered and have not run.
    pub waiting: Vec<usize>,
    /// The deferred nodes among `waiting` that run now.
    pub released: Vec<usize>,
    /// The progress of the joins whose targets are nodes, in the order of their edges.
    pub joins: Vec<JoinMarks>,
}

/// The progress of a join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JoinMarks {
    /// The sources that have run.
    pub seen: Vec<usize>,
    /// True if all sources have run and the target of the join, a deferred node, runs now.
    pub released: bool,
}

/// An abstract model of the engine's superstep from one position to the next.
pub struct StepModel {
    layout: Layout,
    /// The nodes of the model, by their indices in the spec.
    nodes: Vec<usize>,
    deferred: Vec<u64>,
    start: Exit,
    exits: Vec<Exit>,
    pub(super) joins: Vec<Join>,
    joins_into: Vec<Vec<usize>>,
}

/// A join into a node.
pub(super) struct Join {
    /// The index of its edge.
    pub(super) edge: usize,
    target: usize,
    sources: Vec<usize>,
    /// The first mark, which is that of the first source.
    first: usize,
    /// All its marks.
    full: Vec<u64>,
}

/// The outcomes of a node, or of START.
#[derive(Default)]
struct Exit {
    /// The marks that the node leaves in joins.
    marks: Vec<usize>,
    /// The ways of one task.
    one: Vec<Way>,
    /// The ways of several tasks together.
    several: Vec<Way>,
}

impl StepModel {
    /// Creates the model of the nodes for which `is_kept` returns true. The model ignores triggers of other nodes.
    ///
    /// Returns `None` if a command may go to any node, or if a node has too many choices.
    pub fn new(spec: &GraphSpec, is_kept: impl Fn(usize) -> bool) -> Option<Self> {
        Self::within(spec, is_kept, &Choices::all(spec)?, &mut Budget::new())
    }

    pub(super) fn within(
        spec: &GraphSpec,
        is_kept: impl Fn(usize) -> bool,
        choices: &Choices,
        budget: &mut Budget,
    ) -> Option<Self> {
        let nodes: Vec<usize> = (0..spec.nodes.len()).filter(|node| is_kept(*node)).collect();
        let mut local = vec![None; spec.nodes.len()];
        nodes.iter().enumerate().for_each(|(place, node)| local[*node] = Some(place));
        let joins = joins(spec, &local);
        let marks = joins.last().map_or(0, |join| join.first + join.sources.len());
        let layout = Layout {
            nodes: sets::words(nodes.len()).max(1),
            marks: sets::words(marks),
            joins: sets::words(joins.len()),
        };
        let mut model = Self {
            layout,
            deferred: vec![0; layout.nodes],
            start: Exit::default(),
            exits: Vec::new(),
            joins_into: vec![Vec::new(); nodes.len()],
            joins,
            nodes,
        };
        let mut leaving: Vec<Vec<&EdgeSpec>> = vec![Vec::new(); model.nodes.len() + 1];
        for edge in spec.edges.iter() {
            match edge {
                EdgeSpec::Plain { from, .. } | EdgeSpec::Route { from, .. } => match from {
                    Source::Start => leaving[model.nodes.len()].push(edge),
                    Source::Node(node) => local[*node].into_iter().for_each(|node| leaving[node].push(edge)),
                },
                EdgeSpec::Join { .. } => {}
            }
        }
        let (ways, sent) = (Ways { layout, local: &local, choices }, sent(spec));
        for (place, edges) in leaving.iter().enumerate() {
            let node = model.nodes.get(place).copied();
            let one = ways.of_task(edges, node, budget)?;
            let several = match node {
                Some(node) if sent[node] && choices.repeats() => ways.of_several(&one, budget)?,
                Some(node) if sent[node] => one.clone(),
                _ => Vec::new(),
            };
            model.exits.push(Exit { marks: Vec::new(), one, several });
        }
        model.start = model.exits.pop().unwrap_or_default();
        model.index(spec);
        Some(model)
    }

    fn index(&mut self, spec: &GraphSpec) {
        for (place, node) in self.nodes.iter().enumerate() {
            if spec.nodes[*node].defer {
                sets::insert(&mut self.deferred, place);
            }
        }
        for (number, join) in self.joins.iter_mut().enumerate() {
            join.full = vec![0; self.layout.marks];
            for (place, source) in join.sources.iter().enumerate() {
                sets::insert(&mut join.full, join.first + place);
                self.exits[*source].marks.push(join.first + place);
            }
            self.joins_into[join.target].push(number);
        }
    }

    pub(super) fn width(&self) -> usize {
        self.layout.width()
    }

    /// Returns the nodes that run next, by their indices in the spec.
    pub(super) fn running(&self, at: &[u64]) -> Vec<usize> {
        self.nodes_of(&self.running_set(at))
    }

    /// Returns the nodes of a set, by their indices in the spec.
    pub(super) fn nodes_of(&self, set: &[u64]) -> Vec<usize> {
        sets::to_vec(set).into_iter().map(|node| self.nodes[node]).collect()
    }

    /// Returns the set of the nodes that run next, by their places in the model.
    pub(super) fn running_set(&self, at: &[u64]) -> Vec<u64> {
        let mut running = at[self.layout.ready()].to_vec();
        sets::add_all(&mut running, &at[self.layout.sent()]);
        running
    }

    /// Returns the place of a node in the model.
    pub(super) fn place(&self, node: usize) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    pub(super) fn is_over(&self, at: &[u64]) -> bool {
        sets::is_empty(&at[self.layout.ready()]) && sets::is_empty(&at[self.layout.sent()])
    }

    /// Returns true if all sources of a join have run.
    pub(super) fn is_full(&self, at: &[u64], join: &Join) -> bool {
        sets::contains_all(&at[self.layout.marks()], &join.full)
    }

    /// Returns the sources of a join that have not run, by their indices in the spec.
    pub(super) fn missing(&self, at: &[u64], join: &Join) -> Vec<usize> {
        let marks = &at[self.layout.marks()];
        let missing = (0..join.sources.len()).filter(|place| !sets::contains(marks, join.first + place));
        missing.map(|place| self.nodes[join.sources[place]]).collect()
    }

    /// Returns the positions after START.
    pub(super) fn first(&self, budget: &mut Budget) -> Option<Vec<Vec<u64>>> {
        self.after(vec![0; self.width()], vec![&self.start.one], budget)
    }

    /// Returns the positions after the superstep at a position, or `None` if the budget is exhausted.
    pub(super) fn next(&self, at: &[u64], budget: &mut Budget) -> Option<Vec<Vec<u64>>> {
        let layout = self.layout;
        let mut rest = at.to_vec();
        rest[layout.triggers()].fill(0);
        sets::for_each(&at[layout.ready()], |node| self.use_up(&mut rest, node));
        let mut tasks = Vec::new();
        sets::for_each(&at[layout.ready()], |node| tasks.push((node, &self.exits[node].one)));
        sets::for_each(&at[layout.sent()], |node| {
            let exit = &self.exits[node];
            let is_several = sets::contains(&at[layout.several()], node);
            tasks.push((node, if is_several { &exit.several } else { &exit.one }));
        });
        let marks = &mut rest[layout.marks()];
        for (node, _) in &tasks {
            self.exits[*node].marks.iter().for_each(|mark| sets::insert(marks, *mark));
        }
        self.after(rest, tasks.into_iter().map(|(_, ways)| ways.as_slice()).collect(), budget)
    }

    /// Uses up the triggers of a node that has run.
    fn use_up(&self, rest: &mut [u64], node: usize) {
        let layout = self.layout;
        let is_deferred = sets::contains(&self.deferred, node);
        for number in &self.joins_into[node] {
            let join = &self.joins[*number];
            let is_released = sets::contains(&rest[layout.released_joins()], *number);
            if self.is_full(rest, join) && (!is_deferred || is_released) {
                sets::remove_all(&mut rest[layout.marks()], &join.full);
                remove(&mut rest[layout.released_joins()], *number);
            }
        }
        if is_deferred && sets::contains(&rest[layout.released()], node) {
            remove(&mut rest[layout.released()], node);
            remove(&mut rest[layout.waiting()], node);
        }
    }

    /// Combines the ways of the tasks. `rest` is the position without their triggers.
    fn after(&self, mut rest: Vec<u64>, tasks: Vec<&[Way]>, budget: &mut Budget) -> Option<Vec<Vec<u64>>> {
        for join in &self.joins {
            if self.is_full(&rest, join) && !sets::contains(&self.deferred, join.target) {
                sets::insert(&mut rest[self.layout.ready()], join.target);
            }
        }
        let mut ways = vec![vec![0; self.layout.triggers().len()]];
        let (fixed, open): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|ways| ways.len() == 1);
        for task in fixed.into_iter().chain(open) {
            ways = self.layout.combined(&ways, task, budget)?;
        }
        budget.spend(ways.len(), self.width())?;
        Some(ways.iter().map(|way| self.ended(&rest, way)).collect())
    }

    /// Ends a superstep: adds its triggers, and releases deferred nodes if it has triggered no other node, except by
    /// Sends.
    fn ended(&self, rest: &[u64], way: &Way) -> Vec<u64> {
        let layout = self.layout;
        let mut next = rest.to_vec();
        let mut go = way[layout.ready()].to_vec();
        sets::keep_all(&mut go, &self.deferred);
        sets::add_all(&mut next[layout.triggers()], way);
        if !sets::is_empty(&go) {
            sets::remove_all(&mut next[layout.ready()], &go);
            sets::add_all(&mut next[layout.waiting()], &go);
            sets::remove_all(&mut next[layout.released()], &go);
        }
        if !sets::is_empty(&self.deferred) && sets::is_empty(&next[layout.ready()]) {
            self.release(&mut next);
        }
        next
    }

    fn release(&self, next: &mut [u64]) {
        let layout = self.layout;
        let mut fresh = next[layout.waiting()].to_vec();
        sets::remove_all(&mut fresh, &next[layout.released()]);
        sets::add_all(&mut next[layout.released()], &fresh);
        sets::add_all(&mut next[layout.ready()], &fresh);
        for (number, join) in self.joins.iter().enumerate() {
            if sets::contains(&self.deferred, join.target)
                && self.is_full(next, join)
                && !sets::contains(&next[layout.released_joins()], number)
            {
                sets::insert(&mut next[layout.released_joins()], number);
                sets::insert(&mut next[layout.ready()], join.target);
            }
        }
    }

    /// Returns the positions after START, or `None` if there are too many.
    pub fn first_positions(&self) -> Option<Vec<Position>> {
        let first = self.first(&mut Budget::new())?;
        Some(first.iter().map(|at| self.read(at)).collect())
    }

    /// Returns the positions after the superstep at a position, or `None` if there are too many.
    pub fn next_positions(&self, at: &Position) -> Option<Vec<Position>> {
        let next = self.next(&self.write(at), &mut Budget::new())?;
        Some(next.iter().map(|at| self.read(at)).collect())
    }

    fn read(&self, at: &[u64]) -> Position {
        let layout = self.layout;
        let nodes = |set: Range<usize>| self.nodes_of(&at[set]);
        let joins = self.joins.iter().enumerate().map(|(number, join)| {
            let seen = (0..join.sources.len()).filter(|place| sets::contains(&at[layout.marks()], join.first + place));
            let mut seen: Vec<usize> = seen.map(|place| self.nodes[join.sources[place]]).collect();
            seen.sort_unstable();
            JoinMarks { seen, released: sets::contains(&at[layout.released_joins()], number) }
        });
        Position {
            ready: nodes(layout.ready()),
            sent: nodes(layout.sent()),
            several: nodes(layout.several()),
            waiting: nodes(layout.waiting()),
            released: nodes(layout.released()),
            joins: joins.collect(),
        }
    }

    fn write(&self, position: &Position) -> Vec<u64> {
        let layout = self.layout;
        let mut at = vec![0; layout.width()];
        let mut put = |set: Range<usize>, nodes: &[usize]| {
            let places = nodes.iter().filter_map(|node| self.place(*node));
            places.for_each(|place| sets::insert(&mut at[set.clone()], place));
        };
        put(layout.ready(), &position.ready);
        put(layout.sent(), &position.sent);
        put(layout.several(), &position.several);
        put(layout.waiting(), &position.waiting);
        put(layout.released(), &position.released);
        for (number, (join, marks)) in self.joins.iter().zip(&position.joins).enumerate() {
            for (place, source) in join.sources.iter().enumerate() {
                if marks.seen.contains(&self.nodes[*source]) {
                    sets::insert(&mut at[layout.marks()], join.first + place);
                }
            }
            if marks.released {
                sets::insert(&mut at[layout.released_joins()], number);
            }
        }
        at
    }
}

fn remove(set: &mut [u64], item: usize) {
    let mut one = vec![0; set.len()];
    sets::insert(&mut one, item);
    sets::remove_all(set, &one);
}

/// Returns the joins all of whose nodes are in the model.
fn joins(spec: &GraphSpec, local: &[Option<usize>]) -> Vec<Join> {
    let mut joins = Vec::new();
    let mut first = 0;
    for (edge, join) in spec.edges.iter().enumerate() {
        let EdgeSpec::Join { from, to: Target::Node(to) } = join else { continue };
        let sources: Option<Vec<usize>> = from.iter().map(|node| local[*node]).collect();
        let (Some(mut sources), Some(target)) = (sources, local[*to]) else { continue };
        sources.sort_unstable();
        sources.dedup();
        if !sources.is_empty() {
            let count = sources.len();
            joins.push(Join { edge, target, sources, first, full: Vec::new() });
            first += count;
        }
    }
    joins
}
