//! The choices that an exploration follows.

use crate::{Goto, GraphSpec, Target};

#[derive(Clone)]
pub(crate) struct Choices {
    /// For each node, the groups of the targets of its commands. A command goes to any nodes of one group.
    pub(super) groups: Vec<Vec<Vec<usize>>>,
    pub(super) repeats: bool,
}

impl Choices {
    /// Returns all choices. Returns `None` if a command may go to any node.
    pub(crate) fn all(spec: &GraphSpec) -> Option<Self> {
        Some(Self::any_of(targets(spec)?))
    }

    pub(super) fn any_of(targets: Vec<Vec<usize>>) -> Self {
        Self { groups: targets.into_iter().map(|targets| vec![targets]).collect(), repeats: true }
    }

    pub(super) fn groups(&self, node: usize) -> &[Vec<usize>] {
        &self.groups[node]
    }

    /// Returns true if a task may start several tasks of a node, whose choices may differ.
    pub(super) const fn repeats(&self) -> bool {
        self.repeats
    }
}

/// Returns for each node the nodes to which its commands may go. Returns `None` if a command may go to any node.
pub(super) fn targets(spec: &GraphSpec) -> Option<Vec<Vec<usize>>> {
    let of_node = |goto: &Goto| match goto {
        Goto::Any => None,
        Goto::Only(targets) => {
            let nodes = targets.iter().filter_map(|to| match to {
                Target::Node(node) => Some(*node),
                Target::End => None,
            });
            let mut nodes: Vec<usize> = nodes.collect();
            nodes.sort_unstable();
            nodes.dedup();
            Some(nodes)
        }
    };
    spec.nodes.iter().map(|node| of_node(&node.goto)).collect()
}
