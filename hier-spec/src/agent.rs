//! The shape of the graph that an agent is: which nodes there are beside its subagents and stages, and how they lead to
//! each other. The macro and the run-time builder make their graphs of it.

use crate::{EdgeSpec, Goto, GraphSpec, NodeSpec, Source, Target, Text};

/// Instructs the model.
pub const SYSTEM: &str = "system";
/// Asks the model, and goes where its answer says.
pub const REASONING: &str = "reasoning";
/// Calls one tool.
pub const TOOL: &str = "tool";
/// Asks the model, and goes where its answer says: of an `Agent`.
pub const MODEL: &str = "model";
/// Calls one tool: of an `Agent`.
pub const TOOLS_NODE: &str = "tools";
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

/// The kinds of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentKind {
    /// `Agent`: ends when its model answers without a call, or with an answer of a type.
    Agent,
    /// `ReactGraph`: ends when its model reports.
    #[default]
    React,
    /// `TodoGraph`: the same with a list of things to do.
    Todo,
}

/// The nodes that every member of a hierarchy that reports has, in the order of its spec.
pub const NODES: [&str; 9] =
    [SYSTEM, REASONING, TOOL, EMPTY_BACK, FINAL_BACK, INVALID_REPORT, INVALID_PARALLEL, REJECT, FORCED_EXIT];

/// The same with a list of things to do.
const TODO_NODES: [&str; 10] = [
    SYSTEM,
    REASONING,
    TOOL,
    EMPTY_BACK,
    FINAL_BACK,
    INVALID_REPORT,
    INVALID_PARALLEL,
    REJECT,
    FORCED_EXIT,
    TODO_INCOMPLETE,
];

/// The nodes of an `Agent`, in the order of its spec.
const AGENT_NODES: [&str; 2] = [MODEL, TOOLS_NODE];

/// The tools that a member of a hierarchy that reports may have, which no tool and no subagent of its own may be called.
pub const TOOLS: [&str; 6] =
    ["report_to_supervisor", "finish_task", "raise_exception", "todo_write", "todo_complete", READ_EARLIER];

/// The tool by which a model reads what of a long conversation is not sent to it any more.
pub const READ_EARLIER: &str = "read_earlier";

/// The tool by which an `Agent` gives an answer of a type, where its model has no better way.
pub const FINAL_ANSWER: &str = "final_answer";

impl AgentKind {
    /// The nodes of its own, in the order of its spec.
    pub const fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &AGENT_NODES,
            Self::React => &NODES,
            Self::Todo => &TODO_NODES,
        }
    }

    /// The names that no node of a subagent may have: a `ReactGraph` can become a `TodoGraph`.
    pub const fn reserved_nodes(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &AGENT_NODES,
            Self::React | Self::Todo => &TODO_NODES,
        }
    }

    /// The names that no tool and no subagent may have.
    pub const fn reserved_tools(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &[FINAL_ANSWER, READ_EARLIER],
            Self::React | Self::Todo => &TOOLS,
        }
    }

    /// The node that asks the model.
    pub const fn model_node(self) -> &'static str {
        match self {
            Self::Agent => MODEL,
            Self::React | Self::Todo => REASONING,
        }
    }

    /// The node that makes a call of a tool.
    pub const fn tool_node(self) -> &'static str {
        match self {
            Self::Agent => TOOLS_NODE,
            Self::React | Self::Todo => TOOL,
        }
    }
}

/// What belongs to one agent and not to others.
#[derive(Clone, Debug, Default)]
pub struct AgentShape {
    /// Its kind.
    pub kind: AgentKind,
    /// The graphs that its model can call.
    pub subagents: Vec<NodeSpec>,
    /// The graphs that run before its model is asked, in order.
    pub front: Vec<NodeSpec>,
    /// The graphs that run after it has ended, in order.
    pub back: Vec<NodeSpec>,
    /// The names of the layers around its calls of models and tools, from the outermost on.
    pub layers: Vec<Text>,
}

/// The nodes of an agent as its edges need them.
struct Ranges {
    /// Its subagents and all before them.
    front: usize,
    back: usize,
    end: usize,
}

impl AgentShape {
    /// The index of the first subagent; those of the stages follow.
    pub fn first(&self) -> usize {
        self.kind.nodes().len()
    }

    /// The graph of the agent, without name and text.
    pub fn spec(self) -> GraphSpec {
        let (kind, first) = (self.kind, self.first());
        let front = first + self.subagents.len();
        let back = front + self.front.len();
        let ranges = Ranges { front, back, end: back + self.back.len() };
        let mut nodes: Vec<NodeSpec> = kind.nodes().iter().copied().map(NodeSpec::new).collect();
        let calls = [kind.model_node(), kind.tool_node()];
        nodes
            .iter_mut()
            .filter(|node| calls.contains(&&*node.name))
            .for_each(|node| node.layers = self.layers.clone().into());
        nodes.extend(self.subagents.into_iter().chain(self.front).chain(self.back));
        let edges = match kind {
            AgentKind::Agent => converse(&ranges, &mut nodes),
            AgentKind::React | AgentKind::Todo => report(first, &ranges, &mut nodes),
        };
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

/// Edges from each node to the next.
fn line(nodes: &[usize], edges: &mut Vec<EdgeSpec>) {
    let pairs = nodes.windows(2);
    edges.extend(pairs.map(|pair| EdgeSpec::Plain { from: Source::Node(pair[0]), to: Target::Node(pair[1]) }));
}

/// The edges of an `Agent`: its model leads to the tools, to the subagents and, when it has ended, to the stages behind it.
fn converse(ranges: &Ranges, nodes: &mut [NodeSpec]) -> Vec<EdgeSpec> {
    const MODEL: usize = 0;
    let Ranges { front, back, end } = *ranges;
    let exit = if back < end { Target::Node(back) } else { Target::End };
    let mut targets: Vec<Target> = (MODEL..front).map(Target::Node).collect();
    targets.push(exit);
    nodes[MODEL].goto = Goto::Only(targets.into());
    let entry: Vec<usize> = (front..back).chain([MODEL]).collect();
    let mut edges = vec![EdgeSpec::Plain { from: Source::Start, to: Target::Node(entry[0]) }];
    line(&entry, &mut edges);
    (MODEL + 1..front).for_each(|node| line(&[node, MODEL], &mut edges));
    line(&(back..end).collect::<Vec<_>>(), &mut edges);
    if back < end {
        edges.push(EdgeSpec::Plain { from: Source::Node(end - 1), to: Target::End });
    }
    edges
}

/// The edges of a member of a hierarchy that reports.
fn report(first: usize, ranges: &Ranges, nodes: &mut [NodeSpec]) -> Vec<EdgeSpec> {
    let Ranges { front, back, end } = *ranges;
    nodes[at(REASONING)].goto = Goto::Only(answers(first, front).into());
    let mut edges = Vec::new();
    let entry: Vec<usize> = (front..back).chain([at(SYSTEM)]).collect();
    line(&entry, &mut edges);
    line(&[at(SYSTEM), at(REASONING)], &mut edges);
    let refusals = [at(INVALID_REPORT), at(INVALID_PARALLEL), at(REJECT)];
    let back_to_model = [at(TOOL)].into_iter().chain(refusals).chain(NODES.len()..front);
    back_to_model.for_each(|node| line(&[node, at(REASONING)], &mut edges));
    let exit: Vec<usize> = [at(EMPTY_BACK)].into_iter().chain(back..end).chain([at(FINAL_BACK)]).collect();
    line(&exit, &mut edges);
    line(&[at(FORCED_EXIT), at(FINAL_BACK)], &mut edges);
    edges.insert(0, EdgeSpec::Plain { from: Source::Start, to: Target::Node(entry[0]) });
    edges.push(EdgeSpec::Plain { from: Source::Node(at(FINAL_BACK)), to: Target::End });
    edges
}

/// The index of a node that every member that reports has.
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
        let kinds = [AgentKind::Agent, AgentKind::React, AgentKind::Todo];
        let sizes = [(0, 0), (2, 0), (2, 1), (3, 2)];
        for (kind, (subagents, stages)) in kinds.into_iter().flat_map(|kind| sizes.map(|sizes| (kind, sizes))) {
            let named = |kind: &str, count| {
                let node = |number| NodeSpec { name: format!("{kind}{number}").into(), ..NodeSpec::new("") };
                (0..count).map(node).collect::<Vec<_>>()
            };
            let shape = AgentShape {
                kind,
                subagents: named("sub", subagents),
                front: named("front", stages),
                back: named("back", stages),
                layers: vec!["Limit".into()],
            };
            let first = shape.first();
            let spec = GraphSpec { name: "agent".into(), ..shape.spec() };
            assert_eq!(check(&spec), [], "{spec:?}");
            assert_eq!(spec.node("sub0").unwrap_or(first), first);
            let layered = spec.nodes.iter().filter(|node| !node.layers.is_empty()).map(|node| &*node.name);
            assert_eq!(layered.collect::<Vec<_>>(), [kind.model_node(), kind.tool_node()]);
        }
    }
}
