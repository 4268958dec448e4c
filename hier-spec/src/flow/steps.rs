//! The nodes that can run in the same superstep.
//!
//! [`same_step`] explores every position that a run can reach: every arm of every route, every target of a command, no
//! or one item of a `for`. Its verdict is exact within [`BOUND`] steps. Beyond that, only nodes that always run together
//! count.

use std::collections::HashSet;

use crate::reach::Reachability;
use crate::{ArmTarget, EdgeSpec, Goto, GraphSpec, Source, Target, together};

/// The number of steps that the exploration takes at most.
const BOUND: usize = 20_000;

/// A table of the pairs of nodes that can run in the same superstep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameStep {
    words: usize,
    rows: Vec<u64>,
    /// True if the exploration ended within its bound.
    pub is_exact: bool,
}

impl SameStep {
    fn new(nodes: usize) -> Self {
        let words = nodes.div_ceil(64);
        Self { words, rows: vec![0; nodes * words], is_exact: true }
    }

    /// Returns true if the two nodes can run in the same superstep.
    pub fn contains(&self, a: usize, b: usize) -> bool {
        a != b && self.rows[a * self.words + b / 64] & (1 << (b % 64)) != 0
    }

    /// Returns a row of bits for each node, in words of 64 bits. Returns an empty list if no two nodes ever run in the
    /// same superstep.
    pub fn rows(&self) -> &[u64] {
        if self.rows.iter().all(|word| *word == 0) { &[] } else { &self.rows }
    }

    fn insert(&mut self, a: usize, b: usize) {
        self.rows[a * self.words + b / 64] |= 1 << (b % 64);
        self.rows[b * self.words + a / 64] |= 1 << (a % 64);
    }

    fn insert_all(&mut self, nodes: &[usize]) {
        for (place, a) in nodes.iter().enumerate() {
            nodes[..place].iter().for_each(|b| self.insert(*a, *b));
        }
    }
}

/// Computes which nodes can run in the same superstep.
pub fn same_step(spec: &GraphSpec) -> SameStep {
    explored(spec).unwrap_or_else(|| always(spec))
}

/// The nodes that always run in the same superstep.
fn always(spec: &GraphSpec) -> SameStep {
    let class = together::classes(spec, &Reachability::new(spec));
    let mut table = SameStep::new(spec.nodes.len());
    table.is_exact = false;
    for node in 0..class.len() {
        (0..node).filter(|other| class[*other] == class[node]).for_each(|other| table.insert(node, other));
    }
    table
}

/// Explores all positions. Returns none if there are too many.
fn explored(spec: &GraphSpec) -> Option<SameStep> {
    let model = Model::new(spec)?;
    let mut table = SameStep::new(spec.nodes.len());
    let mut budget = BOUND;
    let mut known = HashSet::new();
    let mut open = model.after(&model.start(), &[], &[Source::Start], &mut budget)?;
    while let Some(position) = open.pop() {
        if known.contains(&position) {
            continue;
        }
        let (ready, sent) = (ones(&position.ready), ones(&position.sent));
        let mut nodes: Vec<usize> = ready.iter().chain(&sent).copied().collect();
        nodes.sort_unstable();
        // A node that an edge and a Send have triggered runs twice, and its choices may differ.
        let tasks: Vec<Source> = nodes.iter().copied().map(Source::Node).collect();
        nodes.dedup();
        table.insert_all(&nodes);
        if !nodes.is_empty() {
            open.extend(model.after(&position, &ready, &tasks, &mut budget)?);
        }
        known.insert(position);
    }
    Some(table)
}

/// A set of nodes or of the sources of a join.
type Bits = Vec<u64>;

fn put(bits: &mut Bits, place: usize) {
    bits[place / 64] |= 1 << (place % 64);
}

fn remove(bits: &mut Bits, place: usize) {
    bits[place / 64] &= !(1 << (place % 64));
}

fn has(bits: &Bits, place: usize) -> bool {
    bits[place / 64] & (1 << (place % 64)) != 0
}

fn ones(bits: &Bits) -> Vec<usize> {
    (0..bits.len() * 64).filter(|place| has(bits, *place)).collect()
}

/// The position of a run between two supersteps.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Position {
    /// The nodes that edges have triggered.
    ready: Bits,
    /// The nodes that have been sent an item.
    sent: Bits,
    /// The deferred nodes that wait.
    waiting: Bits,
    /// The deferred nodes that have been released.
    released: Bits,
    /// For each join, its sources that have run, and whether its deferred target has been released.
    joins: Vec<(Bits, bool)>,
}

struct Join {
    from: Vec<usize>,
    to: usize,
}

impl Join {
    fn is_full(&self, seen: &Bits) -> bool {
        self.from.iter().all(|node| has(seen, *node))
    }
}

/// The targets of one choice.
type Way = Vec<ArmTarget>;

/// The targets of a source.
#[derive(Default)]
struct Exit {
    plain: Vec<usize>,
    joins: Vec<usize>,
    /// For each route and for the command of the node, its alternatives.
    choices: Vec<Vec<Way>>,
}

struct Model<'a> {
    spec: &'a GraphSpec,
    joins: Vec<Join>,
    start: Exit,
    nodes: Vec<Exit>,
}

impl<'a> Model<'a> {
    /// Returns none if a command may go anywhere.
    fn new(spec: &'a GraphSpec) -> Option<Self> {
        let mut model = Self { spec, joins: Vec::new(), start: Exit::default(), nodes: Vec::new() };
        model.nodes.resize_with(spec.nodes.len(), Exit::default);
        for edge in spec.edges.iter() {
            match edge {
                EdgeSpec::Plain { from, to: Target::Node(to) } => model.exit_mut(*from).plain.push(*to),
                EdgeSpec::Join { from, to: Target::Node(to) } => {
                    let number = model.joins.len();
                    from.iter().for_each(|node| model.nodes[*node].joins.push(number));
                    model.joins.push(Join { from: from.to_vec(), to: *to });
                }
                EdgeSpec::Route { from, arms, .. } => {
                    let mut ways: Vec<Way> = arms.iter().map(|arm| arm.to.to_vec()).collect();
                    // A `for` may have no items.
                    if ways.iter().flatten().all(|to| matches!(to, ArmTarget::Send(_))) {
                        ways.push(Vec::new());
                    }
                    model.exit_mut(*from).choices.push(ways);
                }
                EdgeSpec::Plain { .. } | EdgeSpec::Join { .. } => {}
            }
        }
        for (node, node_spec) in spec.nodes.iter().enumerate() {
            let Goto::Only(targets) = &node_spec.goto else { return None };
            if targets.is_empty() {
                continue;
            }
            // A command usually chooses one of its targets.
            let mut ways = vec![Vec::new()];
            for to in targets.iter() {
                ways.push(vec![ArmTarget::Go(*to)]);
                if let Target::Node(to) = to {
                    ways.push(vec![ArmTarget::Send(*to)]);
                }
            }
            model.nodes[node].choices.push(ways);
        }
        Some(model)
    }

    fn exit_mut(&mut self, from: Source) -> &mut Exit {
        match from {
            Source::Start => &mut self.start,
            Source::Node(node) => &mut self.nodes[node],
        }
    }

    fn exit(&self, from: Source) -> &Exit {
        match from {
            Source::Start => &self.start,
            Source::Node(node) => &self.nodes[node],
        }
    }

    fn start(&self) -> Position {
        let nodes = || vec![0; self.spec.nodes.len().div_ceil(64)];
        let joins = self.joins.iter().map(|_| (nodes(), false)).collect();
        Position { ready: nodes(), sent: nodes(), waiting: nodes(), released: nodes(), joins }
    }

    fn signal(&self, position: &mut Position, node: usize) {
        if self.spec.nodes[node].defer {
            put(&mut position.waiting, node);
            remove(&mut position.released, node);
        } else {
            put(&mut position.ready, node);
        }
    }

    /// Uses up the triggers of a node.
    fn consume(&self, position: &mut Position, node: usize) {
        let defer = self.spec.nodes[node].defer;
        for (join, (seen, released)) in self.joins.iter().zip(&mut position.joins) {
            if join.to == node && join.is_full(seen) && (!defer || *released) {
                seen.fill(0);
                *released = false;
            }
        }
        if has(&position.released, node) {
            remove(&mut position.released, node);
            remove(&mut position.waiting, node);
        }
    }

    /// Follows the plain edges and joins of a source.
    fn follow(&self, position: &mut Position, from: Source) {
        let exit = self.exit(from);
        exit.plain.iter().for_each(|node| self.signal(position, *node));
        let Source::Node(node) = from else { return };
        for number in &exit.joins {
            let (join, (seen, _)) = (&self.joins[*number], &mut position.joins[*number]);
            if !has(seen, node) {
                put(seen, node);
                if join.is_full(seen) && !self.spec.nodes[join.to].defer {
                    put(&mut position.ready, join.to);
                }
            }
        }
    }

    /// Returns every position after a step of these tasks. `pulled` are the nodes that edges have triggered. Returns none
    /// if the budget is used up.
    fn after(
        &self,
        before: &Position,
        pulled: &[usize],
        tasks: &[Source],
        budget: &mut usize,
    ) -> Option<Vec<Position>> {
        let mut base = before.clone();
        base.ready.fill(0);
        base.sent.fill(0);
        for node in pulled {
            self.consume(&mut base, *node);
        }
        for source in tasks {
            self.follow(&mut base, *source);
        }
        let mut positions = vec![base];
        for ways in tasks.iter().flat_map(|source| &self.exit(*source).choices) {
            *budget = budget.checked_sub(positions.len() * ways.len())?;
            let mut next = HashSet::with_capacity(positions.len() * ways.len());
            for (position, way) in positions.iter().flat_map(|position| ways.iter().map(move |way| (position, way))) {
                let mut position = position.clone();
                for to in way {
                    match to {
                        ArmTarget::Go(Target::Node(node)) => self.signal(&mut position, *node),
                        ArmTarget::Go(Target::End) => {}
                        ArmTarget::Send(node) => put(&mut position.sent, *node),
                    }
                }
                next.insert(position);
            }
            positions = next.into_iter().collect();
        }
        *budget = budget.checked_sub(positions.len())?;
        for position in &mut positions {
            self.release(position);
        }
        Some(positions)
    }

    /// Releases deferred nodes if the step has triggered nothing else.
    fn release(&self, position: &mut Position) {
        if position.ready.iter().any(|word| *word != 0) {
            return;
        }
        for node in ones(&position.waiting) {
            if !has(&position.released, node) {
                put(&mut position.released, node);
                put(&mut position.ready, node);
            }
        }
        for (join, (seen, released)) in self.joins.iter().zip(&mut position.joins) {
            if join.is_full(seen) && !*released && self.spec.nodes[join.to].defer {
                *released = true;
                put(&mut position.ready, join.to);
            }
        }
    }
}
