//! Duplicate edges, and routes whose arms are equal.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::declared::first_equal;
use super::{Findings, ShapeRule, SpecSite, macro_name};
use crate::{EdgeSpec, Goto, GraphSpec, Target};

/// Compares edges, joins regardless of the order of their sources, and the items of lists.
pub(super) fn doubled(spec: &GraphSpec, findings: &mut Findings) {
    let (mut plains, mut joins) = (HashMap::new(), HashMap::new());
    for (index, edge) in spec.edges.iter().enumerate() {
        match edge {
            EdgeSpec::Plain { from, to } => {
                if let Some(first) = first_equal(&mut plains, (*from, *to), index) {
                    let (from, to) = (macro_name(spec.source_name(*from)), macro_name(spec.target_name(*to)));
                    let message = format!("the edge from `{from}` to `{to}` is given twice: remove one");
                    findings.push(ShapeRule::DoubledEdge, [SpecSite::Edge(index), SpecSite::Edge(first)], message);
                }
            }
            EdgeSpec::Join { from, to } => {
                let place = |position| SpecSite::JoinSource(index, position);
                list(from, place, |node| format!("`{}` is given twice in this join", spec.nodes[*node].name), findings);
                let sources: BTreeSet<usize> = from.iter().copied().collect();
                if let Some(first) = first_equal(&mut joins, (sources, *to), index).filter(|_| !from.is_empty()) {
                    let names: Vec<&str> = from.iter().map(|node| &*spec.nodes[*node].name).collect();
                    let (from, to) = (names.join(", "), macro_name(spec.target_name(*to)));
                    let message = format!("the join of `[{from}]` into `{to}` is given twice: remove one");
                    findings.push(ShapeRule::DoubledEdge, [SpecSite::Edge(index), SpecSite::Edge(first)], message);
                }
            }
            EdgeSpec::Route { arms, .. } => {
                for (number, arm) in arms.iter().enumerate() {
                    let place = |position| SpecSite::ArmTarget(index, number, position);
                    let what = |to: &crate::ArmTarget| {
                        format!("`{}` is given twice in this arm", macro_name(spec.target_name(to.target())))
                    };
                    list(&arm.to, place, what, findings);
                }
            }
        }
    }
    lists(spec, findings);
}

/// Checks the lists outside of edges.
fn lists(spec: &GraphSpec, findings: &mut Findings) {
    for (index, node) in spec.nodes.iter().enumerate() {
        if let Goto::Only(targets) = &node.goto {
            let what = |to: &Target| {
                format!(
                    "the target `{}` is given twice in the `goto` of `{}`",
                    macro_name(spec.target_name(*to)),
                    node.name
                )
            };
            list(targets, |position| SpecSite::Goto(index, position), what, findings);
        }
        let what = |channel: &crate::Text| {
            format!("the channel `{channel}` is given twice in the `writes` of `{}`", node.name)
        };
        list(&node.writes, |position| SpecSite::Write(index, position), what, findings);
    }
    let name = |node: &usize| &spec.nodes[*node].name;
    let before = |node: &usize| format!("the node `{}` is given twice in `interrupt_before`", name(node));
    list(&spec.interrupt_before, SpecSite::Before, before, findings);
    let after = |node: &usize| format!("the node `{}` is given twice in `interrupt_after`", name(node));
    list(&spec.interrupt_after, SpecSite::After, after, findings);
}

fn list<T: Eq + Hash>(
    items: &[T],
    place: impl Fn(usize) -> SpecSite,
    what: impl Fn(&T) -> String,
    findings: &mut Findings,
) {
    let mut seen = HashMap::new();
    for (position, item) in items.iter().enumerate() {
        if let Some(first) = first_equal(&mut seen, item, position) {
            findings.push(
                ShapeRule::DoubledEdge,
                [place(position), place(first)],
                format!("{}: remove one", what(item)),
            );
        }
    }
}

pub(super) fn same_arms(spec: &GraphSpec, findings: &mut Findings) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { from, label, arms } = edge else { continue };
        let targets: BTreeSet<BTreeSet<_>> = arms.iter().map(|arm| arm.to.iter().copied().collect()).collect();
        if arms.len() > 1 && targets.len() == 1 {
            let to: Vec<_> = arms[0].to.iter().map(|to| macro_name(spec.target_name(to.target()))).collect();
            let to = match to.as_slice() {
                [one] => (*one).to_owned(),
                several => format!("[{}]", several.join(", ")),
            };
            let from = macro_name(spec.source_name(*from));
            let message = format!("all arms of `{label}` lead to the same place: write `{from} >> {to}`");
            findings.push(ShapeRule::SameArms, [SpecSite::Edge(index)], message);
        }
    }
}
