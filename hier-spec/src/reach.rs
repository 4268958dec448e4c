//! Which nodes can run, and from which the end can be reached.

use crate::{ArmTarget, EdgeSpec, Goto, GraphSpec, Source, Target};

/// One way on: followed when all of `from` have run.
pub(crate) struct Way {
    pub(crate) from: Vec<Source>,
    pub(crate) to: Target,
    /// The edge that this way belongs to; `None` for the goto of a command.
    pub(crate) edge: Option<usize>,
    /// The arm of a route that it belongs to.
    pub(crate) arm: Option<usize>,
    /// Whether it starts one task an item.
    pub(crate) sends: bool,
}

impl Way {
    /// The edge and arm, if it is one of a route.
    pub(crate) fn choice(&self) -> Option<(usize, usize)> {
        Some((self.edge?, self.arm?))
    }
}

/// Every way on of a graph: edges, arms, and the declared targets of commands; with the ways out of each node and into it.
///
/// A command that may go anywhere leads to one more place behind the nodes, from which a way leads to each node: so
/// there are as many ways as there are nodes, and not their square.
pub(crate) struct Ways {
    pub(crate) list: Vec<Way>,
    from_start: Vec<usize>,
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
}

impl Ways {
    pub(crate) fn new(spec: &GraphSpec) -> Self {
        let anywhere = spec.nodes.len();
        let mut list = Vec::new();
        for (index, edge) in spec.edges.iter().enumerate() {
            let way = |from, to| Way { from, to, edge: Some(index), arm: None, sends: false };
            match edge {
                EdgeSpec::Plain { from, to } => list.push(way(vec![*from], *to)),
                EdgeSpec::Join { from, to } => {
                    let mut from: Vec<Source> = from.iter().map(|node| Source::Node(*node)).collect();
                    from.sort_unstable();
                    from.dedup();
                    list.push(way(from, *to));
                }
                EdgeSpec::Route { from, arms, .. } => {
                    for (number, arm) in arms.iter().enumerate() {
                        list.extend(arm.to.iter().map(|to| Way {
                            arm: Some(number),
                            sends: matches!(to, ArmTarget::Send(_)),
                            ..way(vec![*from], to.target())
                        }));
                    }
                }
            }
        }
        // A command may also send, so its targets count as reached by both.
        let goto = |from, to| Way { from: vec![Source::Node(from)], to, edge: None, arm: None, sends: true };
        let mut any = false;
        for (index, node) in spec.nodes.iter().enumerate() {
            match &node.goto {
                Goto::Only(targets) => list.extend(targets.iter().map(|to| goto(index, *to))),
                Goto::Any => {
                    any = true;
                    list.push(goto(index, Target::Node(anywhere)));
                }
            }
        }
        if any {
            list.extend((0..anywhere).map(Target::Node).chain([Target::End]).map(|to| goto(anywhere, to)));
        }
        Self::indexed(list, anywhere + usize::from(any))
    }

    fn indexed(list: Vec<Way>, places: usize) -> Self {
        let (mut from_start, mut out, mut into) = (Vec::new(), vec![Vec::new(); places], vec![Vec::new(); places]);
        for (index, way) in list.iter().enumerate() {
            for from in &way.from {
                match from {
                    Source::Start => from_start.push(index),
                    Source::Node(node) => out[*node].push(index),
                }
            }
            if let Target::Node(to) = way.to {
                into[to].push(index);
            }
        }
        Self { list, from_start, out, into }
    }

    /// The ways that leave a node.
    pub(crate) fn out_of(&self, node: usize) -> impl Iterator<Item = &Way> {
        self.out[node].iter().map(|way| &self.list[*way])
    }

    /// The ways that lead to a node.
    pub(crate) fn into(&self, node: usize) -> impl Iterator<Item = &Way> {
        self.into[node].iter().map(|way| &self.list[*way])
    }

    /// The nodes that can run when a run starts at START and no way refused by `keep` is taken.
    pub(crate) fn reachable(&self, keep: impl Fn(&Way) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.into.len()];
        let mut missing: Vec<usize> = self.list.iter().map(|way| way.from.len()).collect();
        let mut open = self.from_start.clone();
        while let Some(index) = open.pop() {
            let way = &self.list[index];
            missing[index] -= 1;
            if missing[index] == 0
                && keep(way)
                && let Target::Node(to) = way.to
                && !reached[to]
            {
                reached[to] = true;
                open.extend_from_slice(&self.out[to]);
            }
        }
        reached
    }

    /// The nodes that can be reached from `node`, in one step or more.
    pub(crate) fn after(&self, node: usize) -> Vec<bool> {
        let mut reached = vec![false; self.into.len()];
        let mut open = vec![node];
        while let Some(from) = open.pop() {
            for way in self.out_of(from) {
                if let Target::Node(to) = way.to
                    && !reached[to]
                {
                    reached[to] = true;
                    open.push(to);
                }
            }
        }
        reached
    }

    /// The nodes from which END can be reached.
    pub(crate) fn ending(&self) -> Vec<bool> {
        let mut ends = vec![false; self.into.len()];
        let mut open: Vec<usize> = (0..self.list.len()).filter(|way| self.list[*way].to == Target::End).collect();
        while let Some(way) = open.pop() {
            for from in &self.list[way].from {
                if let Source::Node(from) = from
                    && !ends[*from]
                {
                    ends[*from] = true;
                    open.extend_from_slice(&self.into[*from]);
                }
            }
        }
        ends
    }

    /// The nodes that a run passes once at most: each node on the way there, and the node itself, has one way in, which
    /// sends nothing. (So none of them lies on a loop.)
    pub(crate) fn passed_once(&self) -> Vec<bool> {
        let mut once = vec![false; self.into.len()];
        let mut open = self.from_start.clone();
        while let Some(index) = open.pop() {
            let way = &self.list[index];
            if let Target::Node(to) = way.to
                && self.into[to].len() == 1
                && way.from.len() == 1
                && !way.sends
                && !once[to]
            {
                once[to] = true;
                open.extend_from_slice(&self.out[to]);
            }
        }
        once
    }
}
