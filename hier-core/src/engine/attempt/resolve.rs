use hier_spec::did_you_mean;

use crate::engine::program::{AllowedTargets, Destinations, Jump, Plan};
use crate::error::RunError;

/// Finds the nodes that a command names. If `by` is a node, only the targets that this node declares are allowed. `by`
/// is `None` for a command from outside.
pub(crate) fn destinations(
    plan: &Plan,
    by: Option<usize>,
    jumps: impl IntoIterator<Item = Jump>,
) -> Result<Destinations, String> {
    let mut destinations = Destinations::default();
    for jump in jumps {
        follow(plan, by, jump, &mut destinations)?;
    }
    Ok(destinations)
}

pub(crate) fn from_outside(plan: &Plan, jumps: impl IntoIterator<Item = Jump>) -> Result<Destinations, RunError> {
    destinations(plan, None, jumps).map_err(|reason| RunError::Update { graph: plan.graph().to_owned(), reason })
}

fn follow(plan: &Plan, by: Option<usize>, jump: Jump, destinations: &mut Destinations) -> Result<(), String> {
    let owner = if by.is_some() { "the node's" } else { "the" };
    if let Some(graph) = jump.graph
        && graph != plan.graph()
    {
        let node = jump.node.as_deref().unwrap_or(hier_spec::END);
        let here = plan.graph();
        return Err(match by {
            Some(_) => {
                format!("the node's command goes to `{node}` of graph `{graph}`, but the node is in graph `{here}`")
            }
            None => format!("the command goes to `{node}` of graph `{graph}`, but the run is of graph `{here}`"),
        });
    }
    let Some(name) = jump.node else {
        if jump.arg.is_some() {
            return Err(format!("{owner} command sends a payload to END, which accepts none: use `goto(END)`"));
        }
        return allowed(plan, by, None);
    };
    let Some(node) = plan.find(&name) else {
        let tail = did_you_mean(&name, plan.names());
        return Err(format!("{owner} command goes to `{name}`, which is not a node{tail}"));
    };
    allowed(plan, by, Some(node))?;
    match jump.arg {
        Some(arg) => destinations.sends.push(node, arg),
        None => destinations.go.push(node),
    }
    Ok(())
}

/// Refuses a target that the node `by` does not declare. The target `None` is END.
fn allowed(plan: &Plan, by: Option<usize>, target: Option<usize>) -> Result<(), String> {
    let Some(by) = by else { return Ok(()) };
    let is_declared = match (&plan.allowed[by], target) {
        (AllowedTargets::Any, _) => true,
        (AllowedTargets::Only(nodes, _), Some(node)) => nodes.contains(node),
        (AllowedTargets::Only(_, end), None) => *end,
    };
    if is_declared {
        return Ok(());
    }
    let (node, target) = (plan.name(by), target.map_or("END", |node| plan.name(node)));
    Err(format!(
        "the node's command goes to `{target}`, which the node does not declare: write `{node} {{ goto: [{target}] }}` in the graph, or \
         `.goto(\"{node}\", …)` on its builder"
    ))
}
