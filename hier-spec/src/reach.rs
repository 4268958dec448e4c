//! Which nodes can run, and from which the end can be reached.

use crate::{ArmTarget, EdgeSpec, Goto, GraphSpec, Source, Target};

/// One way on: followed when all of `from` have run.
pub(crate) struct Way {
    pub(crate) from: Vec<Source>,
    pub(crate) to: Target,
    /// The edge and, for a route, the arm that this way belongs to; `None` for the goto of a command.
    pub(crate) arm: Option<(usize, usize)>,
    /// Whether it starts one task an item.
    pub(crate) sends: bool,
}

/// Every way on of a graph: edges, arms, and the declared targets of commands.
pub(crate) fn ways(spec: &GraphSpec) -> Vec<Way> {
    let mut ways = Vec::new();
    for (index, edge) in spec.edges.iter().enumerate() {
        match edge {
            EdgeSpec::Plain { from, to } => ways.push(Way { from: vec![*from], to: *to, arm: None, sends: false }),
            EdgeSpec::Join { from, to } => {
                let from = from.iter().map(|node| Source::Node(*node)).collect();
                ways.push(Way { from, to: *to, arm: None, sends: false });
            }
            EdgeSpec::Route { from, arms, .. } => {
                for (number, arm) in arms.iter().enumerate() {
                    ways.extend(arm.to.iter().map(|to| Way {
                        from: vec![*from],
                        to: to.target(),
                        arm: Some((index, number)),
                        sends: matches!(to, ArmTarget::Send(_)),
                    }));
                }
            }
        }
    }
    for (index, node) in spec.nodes.iter().enumerate() {
        let targets: Vec<Target> = match &node.goto {
            Goto::Only(targets) => targets.to_vec(),
            Goto::Any => (0..spec.nodes.len()).map(Target::Node).chain([Target::End]).collect(),
        };
        // A command may also send, so its targets count as reached by both.
        ways.extend(targets.into_iter().map(|to| Way { from: vec![Source::Node(index)], to, arm: None, sends: true }));
    }
    ways
}

/// The nodes that can run when a run starts at START and no way refused by `keep` is taken.
pub(crate) fn reachable(nodes: usize, ways: &[Way], keep: impl Fn(&Way) -> bool) -> Vec<bool> {
    let mut reached = vec![false; nodes];
    let known = |reached: &[bool], source: &Source| match source {
        Source::Start => true,
        Source::Node(node) => reached[*node],
    };
    loop {
        let mut grown = false;
        for way in ways {
            let Target::Node(to) = way.to else { continue };
            if !reached[to] && keep(way) && way.from.iter().all(|from| known(&reached, from)) {
                reached[to] = true;
                grown = true;
            }
        }
        if !grown {
            return reached;
        }
    }
}

/// The nodes that can be reached from `node`, in one step or more.
pub(crate) fn after(nodes: usize, ways: &[Way], node: usize) -> Vec<bool> {
    let mut reached = vec![false; nodes];
    let mut open = vec![node];
    while let Some(from) = open.pop() {
        for way in ways {
            if let Target::Node(to) = way.to
                && way.from.contains(&Source::Node(from))
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
pub(crate) fn ending(nodes: usize, ways: &[Way]) -> Vec<bool> {
    let mut ends = vec![false; nodes];
    loop {
        let mut grown = false;
        for way in ways {
            let leads = match way.to {
                Target::End => true,
                Target::Node(to) => ends[to],
            };
            for from in &way.from {
                if let Source::Node(from) = from
                    && leads
                    && !ends[*from]
                {
                    ends[*from] = true;
                    grown = true;
                }
            }
        }
        if !grown {
            return ends;
        }
    }
}
