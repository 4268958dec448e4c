//! Calls of a graph that would run side by side over one state.

use super::{Findings, Rule, Site};
use crate::{ArmTarget, EdgeSpec, GraphSpec, NodeSpec};

pub(super) fn shared(spec: &GraphSpec, findings: &mut Findings) {
    for (index, edge) in spec.edges.iter().enumerate() {
        let EdgeSpec::Route { arms, .. } = edge else { continue };
        for (number, arm) in arms.iter().enumerate() {
            for (position, to) in arm.to.iter().enumerate() {
                let ArmTarget::Send(node) = *to else { continue };
                let NodeSpec { name, per_thread: true, .. } = &spec.nodes[node] else { continue };
                let message = format!(
                    "the items run side by side, and all of them would share the one state that `{name}` keeps for the \
                     whole thread: let it have `checkpoints: per_call`, or lead an edge to it instead"
                );
                let sites = [Site::ArmTarget(index, number, position), Site::Node(node)];
                findings.push(Rule::SharedCalls, sites, message);
            }
        }
    }
}
