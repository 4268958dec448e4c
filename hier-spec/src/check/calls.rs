//! Parallel calls of a graph with one state.

use super::{Findings, ShapeRule, SpecSite};
use crate::{ArmTarget, EdgeSpec, GraphSpec, NodeSpec};

pub(super) fn shared(spec: &GraphSpec, findings: &mut Findings) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { arms, .. } = edge else { continue };
        for (number, arm) in arms.iter().enumerate() {
            for (position, to) in arm.to.iter().enumerate() {
                let ArmTarget::Send(node) = *to else { continue };
                let NodeSpec { name, per_thread: true, .. } = &spec.nodes[node] else { continue };
                let message = format!(
                    "the items run in parallel and would share the state that `{name}` keeps for the whole thread: write \
                     `checkpoints: per_call`, or a plain edge"
                );
                let sites = [SpecSite::ArmTarget(index, number, position), SpecSite::Node(node)];
                findings.push(ShapeRule::SharedCalls, sites, message);
            }
        }
    }
}
