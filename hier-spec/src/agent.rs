//! The shape of the graph that an agent is: which nodes there are beside its subagents and stages, and how they lead to
//! each other. The macro and the run-time builder make their graphs of it.

use crate::{EdgeSpec, Goto, GraphSpec, NodeSpec, Source, Target};

/// Tells the model what it is and what it has to do.
pub const SYSTEM: &str = "system";
/// Asks the model, and goes where its answer says.
pub const REASONING: &str = "reasoning";
/// Calls one tool.
pub const TOOL: &str = "tool";
/// Takes the report.
pub const EMPTY_BACK: &str = "empty_back";
/// Ends the agent.
pub const FINAL_BACK: &str = "final_back";
/// Refuses a report that is called together with other tools.
pub const INVALID_REPORT: &str = "invalid_call_report_to_supervisor";
/// Refuses a subagent that is called together with others.
pub const INVALID_PARALLEL: &str = "invalid_parallel_subgraph_call";
/// Refuses whatever is no report, once the iterations are used up.
pub const REJECT: &str = "reject_non_reporting_call";
/// Ends an agent that goes on all the same.
pub const FORCED_EXIT: &str = "forced_exit";
/// Refuses a report while there is something to do. Of a `TodoGraph` only.
pub const TODO_INCOMPLETE: &str = "todo_incomplete";

/// The channel that holds the calls which lead to a subagent.
pub const STACK: &str = "__subagent_stack__";

/// The nodes that every agent has, in the order of its spec.
pub const NODES: [&str; 9] =
    [SYSTEM, REASONING, TOOL, EMPTY_BACK, FINAL_BACK, INVALID_REPORT, INVALID_PARALLEL, REJECT, FORCED_EXIT];

/// The tools that every agent may have, which no tool and no subagent of its own may be called.
pub const TOOLS: [&str; 5] = ["report_to_supervisor", "finish_task", "raise_exception", "todo_write", "todo_complete"];

/// What belongs to one agent and not to others.
#[derive(Clone, Debug, Default)]
pub struct AgentShape {
    /// Whether it has a list of things to do.
    pub todo: bool,
    /// The graphs that its model can call.
    pub subagents: Vec<NodeSpec>,
    /// The graphs that run before its model is asked, in order.
    pub front: Vec<NodeSpec>,
    /// The graphs that run after its report, in order.
    pub back: Vec<NodeSpec>,
}

impl AgentShape {
    /// The index of the first subagent; those of the stages follow.
    pub fn first(&self) -> usize {
        NODES.len() + usize::from(self.todo)
    }

    /// The graph of the agent, without name and text.
    pub fn spec(self) -> GraphSpec {
        let first = self.first();
        let front = first + self.subagents.len();
        let back = front + self.front.len();
        let end = back + self.back.len();
        let mut nodes: Vec<NodeSpec> = NODES.into_iter().map(NodeSpec::new).collect();
        nodes.extend(self.todo.then(|| NodeSpec::new(TODO_INCOMPLETE)));
        nodes.extend(self.subagents.into_iter().chain(self.front).chain(self.back));
        nodes[at(REASONING)].goto = Goto::Only(answers(first, front).into());
        let mut edges = Vec::new();
        let mut line = |nodes: &[usize]| {
            edges.extend(
                nodes.windows(2).map(|pair| EdgeSpec::Plain { from: Source::Node(pair[0]), to: Target::Node(pair[1]) }),
            );
        };
        let entry: Vec<usize> = (front..back).chain([at(SYSTEM)]).collect();
        line(&entry);
        line(&[at(SYSTEM), at(REASONING)]);
        let refusals = [at(INVALID_REPORT), at(INVALID_PARALLEL), at(REJECT)];
        let back_to_model = [at(TOOL)].into_iter().chain(refusals).chain(NODES.len()..front);
        back_to_model.for_each(|node| line(&[node, at(REASONING)]));
        let exit: Vec<usize> = [at(EMPTY_BACK)].into_iter().chain(back..end).chain([at(FINAL_BACK)]).collect();
        line(&exit);
        line(&[at(FORCED_EXIT), at(FINAL_BACK)]);
        edges.insert(0, EdgeSpec::Plain { from: Source::Start, to: Target::Node(entry[0]) });
        edges.push(EdgeSpec::Plain { from: Source::Node(at(FINAL_BACK)), to: Target::End });
        GraphSpec {
            name: "".into(),
            doc: "".into(),
            nodes: nodes.into(),
            edges: edges.into(),
            interrupt_before: Vec::new().into(),
            interrupt_after: Vec::new().into(),
        }
    }
}

/// The index of a node that every agent has.
fn at(name: &str) -> usize {
    NODES.iter().position(|node| *node == name).unwrap_or_default()
}

/// Where the answer of the model may lead: all but what has its place in the line.
fn answers(first: usize, front: usize) -> Vec<Target> {
    let fixed = [REASONING, TOOL, EMPTY_BACK, INVALID_REPORT, INVALID_PARALLEL, REJECT, FORCED_EXIT].map(at);
    let others = NODES.len()..first.max(front);
    fixed.into_iter().chain(others).map(Target::Node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn every_shape_obeys_the_rules_of_graphs() {
        for (todo, subagents, stages) in [(false, 0, 0), (true, 0, 0), (false, 2, 1), (true, 3, 2)] {
            let named = |kind: &str, count| {
                let node = |number| NodeSpec { name: format!("{kind}{number}").into(), ..NodeSpec::new("") };
                (0..count).map(node).collect::<Vec<_>>()
            };
            let shape = AgentShape {
                todo,
                subagents: named("sub", subagents),
                front: named("front", stages),
                back: named("back", stages),
            };
            let first = shape.first();
            let spec = GraphSpec { name: "agent".into(), ..shape.spec() };
            assert_eq!(check(&spec), [], "{spec:?}");
            assert_eq!(spec.node("sub0").unwrap_or(first), first);
        }
    }
}
