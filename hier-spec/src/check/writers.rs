//! Two writers of one channel in one superstep.

use std::collections::BTreeMap;

use super::path::path;
use super::{Findings, ShapeRule, SpecSite};
use crate::positions::{Companions, Positions};
use crate::reach::Reachability;
use crate::{GraphSpec, together};

pub(super) fn two(spec: &GraphSpec, reach: &Reachability, findings: &mut Findings) {
    // Most graphs declare no writes, or no channel twice.
    let mut writers: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        for (position, channel) in node.writes.iter().enumerate() {
            let of_channel = writers.entry(channel).or_default();
            if of_channel.last().is_none_or(|(last, _)| *last != index) {
                of_channel.push((index, position));
            }
        }
    }
    writers.retain(|_, nodes| nodes.len() > 1);
    if writers.is_empty() {
        return;
    }
    let all: Vec<usize> = writers.values().flatten().map(|(node, _)| *node).collect();
    let steps = Steps::new(spec, reach, &all);
    for (channel, nodes) in writers {
        for (place, (second, position)) in nodes.iter().enumerate() {
            let found =
                nodes[..place].iter().find_map(|(first, other)| Some((first, other, steps.of(spec, *first, *second)?)));
            let Some((first, other, step)) = found else { continue };
            let (a, b) = (&spec.nodes[*first].name, &spec.nodes[*second].name);
            let message = format!(
                "{step} and both write `{channel}`, which has no reducer: add a reducer to `{channel}`, or run `{a}` and \
                 `{b}` in different steps"
            );
            findings.push(
                ShapeRule::TwoWriters,
                [SpecSite::Write(*second, *position), SpecSite::Write(*first, *other)],
                message,
            );
        }
    }
}

/// The nodes that always run together.
enum Steps {
    /// All positions have been explored.
    Exact(Box<Positions>, Vec<Option<Companions>>),
    /// Nodes of one class always run together. Nodes of different classes may also do so.
    Classes(Vec<usize>),
}

impl Steps {
    fn new(spec: &GraphSpec, reach: &Reachability, writers: &[usize]) -> Self {
        match Positions::with(spec, reach, writers) {
            Some(positions) => {
                let companions = positions.companions(spec);
                Self::Exact(Box::new(positions), companions)
            }
            None => Self::Classes(together::classes(spec, reach)),
        }
    }

    /// Describes how two nodes always run in the same superstep, if they do.
    fn of(&self, spec: &GraphSpec, first: usize, second: usize) -> Option<String> {
        let (a, b) = (&spec.nodes[first].name, &spec.nodes[second].name);
        let both = format!("`{a}` and `{b}` always run in the same step");
        let (positions, companions) = match self {
            Self::Classes(class) => return (class[first] == class[second]).then_some(both),
            Self::Exact(positions, companions) => (positions, companions),
        };
        let (of_first, of_second) = (companions[first].as_ref()?, companions[second].as_ref()?);
        let needs = [positions.always_runs(of_first, second), positions.always_runs(of_second, first)];
        let (what, at) = match needs {
            [true, true] => (both, of_first.first),
            [true, false] => (format!("`{a}` never runs without `{b}` in the same step"), of_first.first),
            [false, true] => (format!("`{b}` never runs without `{a}` in the same step"), of_second.first),
            [false, false] => return None,
        };
        Some(format!("{what} (`{}`)", path(spec, positions, &positions.path(at))))
    }
}
