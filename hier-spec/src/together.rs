//! Which nodes always run in the same step.

use std::collections::{BTreeMap, BTreeSet};

use crate::reach::{Way, Ways};
use crate::{GraphSpec, Source, Target};

/// What sets a node off: sources (each by its class; START is its own) and, for a route, the arm.
type Cause = (BTreeSet<Option<usize>>, Option<(usize, usize)>);

/// What sets a node off, in every way, and whether it waits until nothing else runs.
type Causes = (BTreeSet<Cause>, bool);

/// A class for each node: the nodes of one class are always set off by the same thing at the same time.
///
/// Congruence closure: every node starts alone, and nodes with equal causes are merged until nothing changes. A merger
/// changes the causes of what follows the merged nodes, so these are looked at again. A node that a Send or a command
/// can reach stays alone, since nothing is known of when that happens.
pub(crate) fn classes(spec: &GraphSpec, ways: &Ways) -> Vec<usize> {
    let count = spec.nodes.len();
    let mut class: Vec<usize> = (0..count).collect();
    let mut members: Vec<Vec<usize>> = (0..count).map(|node| vec![node]).collect();
    let mut known: BTreeMap<Causes, usize> = BTreeMap::new();
    let mut open: Vec<usize> = (0..count).rev().collect();
    while let Some(node) = open.pop() {
        let Some(causes) = causes(spec, ways, node, &class) else { continue };
        let other = *known.entry(causes).or_insert(node);
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
            open.extend(ways.out_of(member).filter_map(|way| match way.to {
                Target::Node(to) if to < count => Some(to),
                _ => None,
            }));
        }
    }
    class
}

/// The causes of a node, or none if it cannot be said when it runs.
fn causes(spec: &GraphSpec, ways: &Ways, node: usize, class: &[usize]) -> Option<Causes> {
    let defer = spec.nodes[node].defer;
    let sources = |way: &Way| -> BTreeSet<Option<usize>> {
        let class_of = |source: &Source| match source {
            Source::Start => None,
            // The place behind the nodes, from which a command goes anywhere.
            Source::Node(from) => Some(class.get(*from).copied().unwrap_or(usize::MAX)),
        };
        way.from.iter().map(class_of).collect()
    };
    let plain = |way: &&Way| !way.sends && way.arm.is_none();
    let always: BTreeSet<_> = ways.into(node).filter(plain).map(sources).collect();
    let mut causes: BTreeSet<Cause> = always.iter().map(|sources| (sources.clone(), None)).collect();
    // Where a plain edge of the same source leads to the node, a route or a Send of it sets off nothing that does not
    // run in that step anyway; but a Send does not wait.
    for way in ways.into(node).filter(|way| !plain(way)) {
        let sources = sources(way);
        match way.sends {
            _ if always.contains(&sources) && !(way.sends && defer) => {}
            true => return None,
            false => {
                causes.insert((sources, way.choice()));
            }
        }
    }
    (!causes.is_empty()).then_some((causes, defer))
}
