//! Which nodes always run in the same step.

use std::collections::{BTreeMap, BTreeSet};

use crate::reach::Way;
use crate::{GraphSpec, Source, Target};

/// What sets a node off: sources (each by its class; START is its own) and, for a route, the arm.
type Cause = (BTreeSet<Option<usize>>, Option<(usize, usize)>);

/// A class for each node: the nodes of one class are always set off by the same thing at the same time.
///
/// Least fixpoint: every node starts alone; nodes with equal causes join, until nothing changes. A node that a Send or
/// a command can reach stays alone, since nothing is known of when that happens.
pub(crate) fn classes(spec: &GraphSpec, ways: &[Way]) -> Vec<usize> {
    let mut class: Vec<usize> = (0..spec.nodes.len()).collect();
    loop {
        let mut first: BTreeMap<(BTreeSet<Cause>, bool), usize> = BTreeMap::new();
        let next: Vec<usize> = (0..spec.nodes.len())
            .map(|node| match causes(ways, node, &class) {
                Some(causes) => *first.entry((causes, spec.nodes[node].defer)).or_insert(node),
                None => node,
            })
            .collect();
        if next == class {
            return class;
        }
        class = next;
    }
}

/// The causes of a node, or none if it cannot be said when it runs.
fn causes(ways: &[Way], node: usize, class: &[usize]) -> Option<BTreeSet<Cause>> {
    let mut causes = BTreeSet::new();
    for way in ways.iter().filter(|way| way.to == Target::Node(node)) {
        if way.sends {
            return None;
        }
        let sources = way.from.iter().map(|source| match source {
            Source::Start => None,
            Source::Node(from) => Some(class[*from]),
        });
        causes.insert((sources.collect(), way.arm));
    }
    (!causes.is_empty()).then_some(causes)
}
