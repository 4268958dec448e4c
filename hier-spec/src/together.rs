//! Nodes that always run in the same superstep.

use std::collections::{BTreeMap, BTreeSet};

use crate::reach::{Reachability, Transition};
use crate::{GraphSpec, Source, Target};

/// A trigger of a node: its sources, each by class (`None` is START), and the arm of a route.
type Trigger = (BTreeSet<Option<usize>>, Option<(usize, usize)>);

/// All triggers of a node, and whether it is deferred.
type Triggers = (BTreeSet<Trigger>, bool);

/// Computes a class for each node. The nodes of one class always have the same trigger at the same time.
///
/// This is congruence closure: every node starts in its own class, and nodes with equal triggers are merged until
/// nothing changes. Merging two nodes changes the triggers of their successors, so these are checked again. A node that
/// a Send or a command can reach stays alone, because the time at which it runs is unknown.
pub(crate) fn classes(spec: &GraphSpec, reach: &Reachability) -> Vec<usize> {
    let count = spec.nodes.len();
    let mut class: Vec<usize> = (0..count).collect();
    let mut members: Vec<Vec<usize>> = (0..count).map(|node| vec![node]).collect();
    let mut known: BTreeMap<Triggers, usize> = BTreeMap::new();
    let mut open: Vec<usize> = (0..count).rev().collect();
    while let Some(node) = open.pop() {
        let Some(triggers) = triggers(spec, reach, node, &class) else { continue };
        let other = *known.entry(triggers).or_insert(node);
        let (mut kept, mut given_up) = (class[other], class[node]);
        if kept == given_up {
            continue;
        }
        if members[kept].len() < members[given_up].len() {
            std::mem::swap(&mut kept, &mut given_up);
        }
        for member in std::mem::take(&mut members[given_up]) {
            class[member] = kept;
            members[kept].push(member);
            open.extend(reach.out_of(member).filter_map(|way| match way.to {
                Target::Node(to) => Some(to),
                Target::End => None,
            }));
        }
    }
    class
}

/// Returns the triggers of a node, or `None` if its time is unknown.
fn triggers(spec: &GraphSpec, reach: &Reachability, node: usize, class: &[usize]) -> Option<Triggers> {
    let defer = spec.nodes[node].defer;
    let sources = |way: &Transition| -> BTreeSet<Option<usize>> {
        let class_of = |source: &Source| match source {
            Source::Start => None,
            // The place after the nodes stands for commands that may go anywhere.
            Source::Node(from) => Some(class.get(*from).copied().unwrap_or(usize::MAX)),
        };
        way.from.iter().map(class_of).collect()
    };
    let is_plain = |way: &&Transition| !way.sends && way.arm.is_none();
    let always: BTreeSet<_> = reach.into(node).filter(is_plain).map(sources).collect();
    let mut triggers: BTreeSet<Trigger> = always.iter().map(|sources| (sources.clone(), None)).collect();
    // If a plain edge from the same source leads to the node, a route or Send from it adds no trigger: the node runs in
    // that superstep anyway. A Send to a deferred node does, because it does not wait.
    for way in reach.into(node).filter(|way| !is_plain(way)) {
        let sources = sources(way);
        match way.sends {
            _ if always.contains(&sources) && !(way.sends && defer) => {}
            true => return None,
            false => {
                triggers.insert((sources, way.choice()));
            }
        }
    }
    (!triggers.is_empty()).then_some((triggers, defer))
}
