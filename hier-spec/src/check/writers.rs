//! Two writers of one channel in one step.

use std::collections::BTreeMap;

use super::{Findings, ShapeRule, SpecSite};
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
    let class = together::classes(spec, reach);
    for (channel, nodes) in writers {
        for (place, (second, position)) in nodes.iter().enumerate() {
            let Some((first, other)) = nodes[..place].iter().find(|(first, _)| class[*first] == class[*second]) else {
                continue;
            };
            let (a, b) = (&spec.nodes[*first].name, &spec.nodes[*second].name);
            let message = format!(
                "`{a}` and `{b}` always run in the same step and both write `{channel}`, which has no reducer: add a reducer \
                 to `{channel}`, or run one node after the other"
            );
            findings.push(
                ShapeRule::TwoWriters,
                [SpecSite::Write(*second, *position), SpecSite::Write(*first, *other)],
                message,
            );
        }
    }
}
