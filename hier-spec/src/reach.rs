//! Reachability: which nodes can run, and which can reach the end.

use crate::{ArmTarget, EdgeSpec, Goto, GraphSpec, Source, Target};

/// A transition, which is followed when all of `from` have run.
pub(crate) struct Transition {
    pub(crate) from: Vec<Source>,
    pub(crate) to: Target,
    /// The edge of this transition. `None` for the `goto` of a command.
    pub(crate) edge: Option<usize>,
    pub(crate) arm: Option<usize>,
    /// True if it starts one task per item.
    pub(crate) sends: bool,
}

impl Transition {
    /// Returns the edge and the arm of a route.
    pub(crate) fn choice(&self) -> Option<(usize, usize)> {
        Some((self.edge?, self.arm?))
    }
}

/// The transitions of a graph: edges, arms, and the declared targets of commands, with an index by node.
///
/// A command that may go anywhere leads to an additional place after the nodes, from which a transition leads to each
/// node. The number of transitions therefore grows with the number of nodes and not with its square.
pub(crate) struct Reachability {
    pub(crate) list: Vec<Transition>,
    from_start: Vec<usize>,
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
}

impl Reachability {
    pub(crate) fn new(spec: &GraphSpec) -> Self {
        let anywhere = spec.nodes.len();
        let mut list = Vec::new();
        for (index, edge) in spec.edges.iter().enumerate() {
            let way = |from, to| Transition { from, to, edge: Some(index), arm: None, sends: false };
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
                        list.extend(arm.to.iter().map(|to| Transition {
                            arm: Some(number),
                            sends: matches!(to, ArmTarget::Send(_)),
                            ..way(vec![*from], to.target())
                        }));
                    }
                }
            }
        }
        // A command may also send, so its targets count as reached by a Send.
        let goto = |from, to| Transition { from: vec![Source::Node(from)], to, edge: None, arm: None, sends: true };
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

    fn indexed(list: Vec<Transition>, places: usize) -> Self {
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

    pub(crate) fn out_of(&self, node: usize) -> impl Iterator<Item = &Transition> {
        self.out[node].iter().map(|way| &self.list[*way])
    }

    pub(crate) fn into(&self, node: usize) -> impl Iterator<Item = &Transition> {
        self.into[node].iter().map(|way| &self.list[*way])
    }

    /// Returns the nodes that can run from START if a run takes only transitions that satisfy `keep`.
    pub(crate) fn reachable(&self, keep: impl Fn(&Transition) -> bool) -> Vec<bool> {
        let mut missing: Vec<usize> = self.list.iter().map(|way| way.from.len()).collect();
        self.followed(self.from_start.clone(), |index, way| {
            missing[index] -= 1;
            missing[index] == 0 && keep(way)
        })
    }

    /// Follows these transitions and those that leave the reached nodes, as long as they pass the test. Returns the
    /// reached nodes.
    fn followed(&self, mut open: Vec<usize>, mut passes: impl FnMut(usize, &Transition) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.into.len()];
        while let Some(index) = open.pop() {
            let way = &self.list[index];
            if passes(index, way)
                && let Target::Node(to) = way.to
                && !std::mem::replace(&mut reached[to], true)
            {
                open.extend_from_slice(&self.out[to]);
            }
        }
        reached
    }

    /// Returns these nodes and the nodes from which one of them can be reached.
    pub(crate) fn leading_to(&self, nodes: &[usize]) -> Vec<bool> {
        let open = nodes.iter().flat_map(|node| &self.into[*node]).copied().collect();
        let mut leads = self.leading(open);
        for node in nodes {
            leads[*node] = true;
        }
        leads
    }

    /// Follows transitions from a node until each node that can follow also leads back. Returns such a node.
    pub(crate) fn last_from(&self, mut node: usize) -> usize {
        loop {
            let (leads, follows) = (self.leading_to(&[node]), self.followed(self.out[node].clone(), |_, _| true));
            let Some(next) = (0..follows.len()).rfind(|other| follows[*other] && !leads[*other]) else { return node };
            node = next;
        }
    }

    /// Returns the nodes from which END can be reached.
    pub(crate) fn ending(&self) -> Vec<bool> {
        self.leading((0..self.list.len()).filter(|way| self.list[*way].to == Target::End).collect())
    }

    /// Returns the nodes from which one of these transitions can be reached.
    fn leading(&self, mut open: Vec<usize>) -> Vec<bool> {
        let mut leads = vec![false; self.into.len()];
        while let Some(index) = open.pop() {
            for from in &self.list[index].from {
                if let Source::Node(from) = from
                    && !std::mem::replace(&mut leads[*from], true)
                {
                    open.extend_from_slice(&self.into[*from]);
                }
            }
        }
        leads
    }

    /// Returns the nodes that a run visits at most once. Each such node, and each node on the way to it, has one
    /// incoming transition, which sends nothing; none of them is part of a loop.
    pub(crate) fn passed_once(&self) -> Vec<bool> {
        self.followed(self.from_start.clone(), |_, way| {
            let is_only_way = matches!(way.to, Target::Node(to) if self.into[to].len() == 1);
            is_only_way && way.from.len() == 1 && !way.sends
        })
    }
}
