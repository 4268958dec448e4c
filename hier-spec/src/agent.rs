//! The shape of an agent's graph: its own nodes, and the edges to its subagents and stages. The macro and the run-time
//! builder use it.

use crate::{EdgeSpec, Goto, GraphSpec, NodeSpec, Source, Target, Text};

/// The name of the node that adds the system prompt.
pub const SYSTEM: &str = "system";
/// The name of the node that calls the model and chooses the next nodes from its reply.
pub const REASONING: &str = "reasoning";
/// The name of the node that calls one tool.
pub const TOOL: &str = "tool";
/// The name of the node of an `Agent` that calls the model and chooses the next nodes from its reply.
pub const MODEL: &str = "model";
/// The name of the node of an `Agent` that calls one tool.
pub const TOOLS_NODE: &str = "tools";
/// The name of the node that runs after the model has reported. The node answers the model's call of the report tool.
pub const EMPTY_BACK: &str = "empty_back";
/// The name of the last node of a `ReactGraph` or `TodoGraph`. It usually follows the back stages (`back: […]`).
pub const FINAL_BACK: &str = "final_back";
/// The name of the node that rejects a report that accompanies other calls.
pub const INVALID_REPORT: &str = "invalid_call_report_to_supervisor";
/// The name of the node that rejects a call of a subagent that accompanies other calls.
pub const INVALID_PARALLEL: &str = "invalid_parallel_subgraph_call";
/// The name of the node that rejects calls other than a report after the last iteration.
pub const REJECT: &str = "reject_non_reporting_call";
/// The name of the node that ends an agent that has reached a limit.
pub const FORCED_EXIT: &str = "forced_exit";
/// The name of the node of a `TodoGraph` that rejects a report while items are open.
pub const TODO_INCOMPLETE: &str = "todo_incomplete";

/// The name of the channel with an agent's stack of subagent calls. The stack contains the calls in progress that lead
/// to the agent, from the call by the outermost supervisor to the call of the agent.
pub const STACK: &str = "__subagent_stack__";

/// The kinds of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentKind {
    /// `Agent`: ends when its model replies without a call, or with a typed answer.
    Agent,
    /// `ReactGraph`: ends when its model reports.
    #[default]
    React,
    /// `TodoGraph`: a `ReactGraph` with a list of items to do.
    Todo,
}

/// The names of the nodes of every `ReactGraph`, in the order of its spec.
pub const NODES: [&str; 9] =
    [SYSTEM, REASONING, TOOL, EMPTY_BACK, FINAL_BACK, INVALID_REPORT, INVALID_PARALLEL, REJECT, FORCED_EXIT];

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

const AGENT_NODES: [&str; 2] = [MODEL, TOOLS_NODE];

/// The names of the built-in tools that a `ReactGraph` or `TodoGraph` may have. No other tool and no subagent may have
/// these names.
pub const TOOLS: [&str; 6] =
    ["report_to_supervisor", "finish_task", "raise_exception", "todo_write", "todo_complete", READ_EARLIER];

/// The name of the built-in tool with which a model reads earlier messages of a long conversation. Compaction has
/// removed these messages from the requests to the model.
pub const READ_EARLIER: &str = "read_earlier";

/// The name of the built-in tool with which the model of an agent with many tools searches for tools.
pub const SEARCH_TOOLS: &str = "search_tools";

/// The name of the built-in tool that shows the state of an agent's background subagents.
pub const CHECK_SUBAGENTS: &str = "check_subagents";
/// The name of the built-in tool that waits for background subagents.
pub const WAIT_FOR_SUBAGENTS: &str = "wait_for_subagents";
/// The name of the built-in tool that sends a message to a background subagent.
pub const MESSAGE_SUBAGENT: &str = "message_subagent";
/// The name of the built-in tool that cancels a background subagent.
pub const CANCEL_SUBAGENT: &str = "cancel_subagent";

/// The names of the built-in tools of an agent with background subagents.
pub const BACKGROUND_TOOLS: [&str; 4] = [CHECK_SUBAGENTS, WAIT_FOR_SUBAGENTS, MESSAGE_SUBAGENT, CANCEL_SUBAGENT];

/// The name of the built-in tool with which the model of an `Agent` gives a typed answer. An agent uses this tool if
/// its provider does not enforce output schemas.
pub const FINAL_ANSWER: &str = "final_answer";

impl AgentKind {
    /// Returns the names of the built-in nodes of an agent of this kind, without stages and subagents. They have the order
    /// of the nodes in the agent's [`GraphSpec`](crate::GraphSpec).
    pub const fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &AGENT_NODES,
            Self::React => &NODES,
            Self::Todo => &TODO_NODES,
        }
    }

    /// Returns the names that the node of a subagent must not have in this agent's graph. For a `ReactGraph`, these include the names of the nodes of
    /// a `TodoGraph`.
    pub const fn reserved_nodes(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &AGENT_NODES,
            Self::React | Self::Todo => &TODO_NODES,
        }
    }

    /// Returns the names that no tool and no subagent may have.
    pub const fn reserved_tools(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &[FINAL_ANSWER, READ_EARLIER],
            Self::React | Self::Todo => &TOOLS,
        }
    }

    /// Returns the name of the node that calls the model.
    pub const fn model_node(self) -> &'static str {
        match self {
            Self::Agent => MODEL,
            Self::React | Self::Todo => REASONING,
        }
    }

    /// Returns the name of the node that calls tools.
    pub const fn tool_node(self) -> &'static str {
        match self {
            Self::Agent => TOOLS_NODE,
            Self::React | Self::Todo => TOOL,
        }
    }
}

/// The properties of an agent that determine its graph.
#[derive(Clone, Debug, Default)]
pub struct AgentShape {
    /// The kind of agent.
    pub kind: AgentKind,
    /// The graphs that the agent's model can call.
    pub subagents: Vec<NodeSpec>,
    /// The graphs that run before the first call of the model, in order.
    pub front: Vec<NodeSpec>,
    /// The graphs that run after the agent has ended, in order.
    pub back: Vec<NodeSpec>,
    /// The names of the layers around the agent's calls of models and tools, outermost first.
    pub layers: Vec<Text>,
}

/// The ranges of an agent's nodes: the subagents, the front stages and the back stages follow each other.
struct NodeRanges {
    /// The end of the subagents and the start of the front stages.
    front: usize,
    back: usize,
    end: usize,
}

impl AgentShape {
    /// Returns the number of built-in nodes, which come first in the graph of [`spec`](Self::spec). The nodes of the
    /// subagents start at this index, and the stages follow the subagents.
    pub fn first(&self) -> usize {
        self.kind.nodes().len()
    }

    /// Returns the graph of the agent, with an empty name and an empty doc.
    pub fn spec(self) -> GraphSpec {
        let (kind, first) = (self.kind, self.first());
        let front = first + self.subagents.len();
        let back = front + self.front.len();
        let ranges = NodeRanges { front, back, end: back + self.back.len() };
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

fn line(nodes: &[usize], edges: &mut Vec<EdgeSpec>) {
    let pairs = nodes.windows(2);
    edges.extend(pairs.map(|pair| EdgeSpec::Plain { from: Source::Node(pair[0]), to: Target::Node(pair[1]) }));
}

/// The edges of an `Agent`: its model leads to the tools, to the subagents and, at the end, to the back stages.
fn converse(ranges: &NodeRanges, nodes: &mut [NodeSpec]) -> Vec<EdgeSpec> {
    const MODEL: usize = 0;
    let NodeRanges { front, back, end } = *ranges;
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

/// The edges of a `ReactGraph` or `TodoGraph`.
fn report(first: usize, ranges: &NodeRanges, nodes: &mut [NodeSpec]) -> Vec<EdgeSpec> {
    let NodeRanges { front, back, end } = *ranges;
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

/// The index of one of [`NODES`].
fn at(name: &str) -> usize {
    NODES.iter().position(|node| *node == name).unwrap_or_default()
}

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
    fn every_agent_shape_keeps_the_graph_rules() {
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

    /// Returns the model's targets and the edges, by name, of an agent with one subagent, one front stage and two back
    /// stages.
    fn drawn(kind: AgentKind) -> (Vec<String>, Vec<String>) {
        let named = |names: &[&'static str]| names.iter().copied().map(NodeSpec::new).collect();
        let (subagents, front, back) = (named(&["sub"]), named(&["front"]), named(&["back1", "back2"]));
        let spec = AgentShape { kind, subagents, front, back, layers: Vec::new() }.spec();
        let to = |target: &Target| match target {
            Target::End => "END".to_owned(),
            Target::Node(node) => spec.nodes[*node].name.to_string(),
        };
        let model = spec.node(kind.model_node()).expect("the model's node");
        let Goto::Only(targets) = &spec.nodes[model].goto else { panic!("the model may go anywhere") };
        let edges = spec.edges.iter().map(|edge| match edge {
            EdgeSpec::Plain { from: Source::Start, to: target } => format!("START {}", to(target)),
            EdgeSpec::Plain { from: Source::Node(from), to: target } => {
                format!("{} {}", spec.nodes[*from].name, to(target))
            }
            other => panic!("{other:?}"),
        });
        (targets.iter().map(to).collect(), edges.collect())
    }

    #[test]
    fn stages_surround_the_turn_of_an_agent() {
        let (targets, edges) = drawn(AgentKind::Agent);
        assert_eq!(targets, [MODEL, TOOLS_NODE, "sub", "back1"]);
        let expected =
            ["START front", "front model", "tools model", "sub model", "back1 back2", "back2 END"].map(str::to_owned);
        assert_eq!(edges, expected);
        let alone = AgentShape { kind: AgentKind::Agent, ..AgentShape::default() }.spec();
        let Goto::Only(targets) = &alone.nodes[0].goto else { panic!("the model may go anywhere") };
        assert_eq!(**targets, [Target::Node(0), Target::Node(1), Target::End]);
        assert_eq!(alone.edges.len(), 2, "from START and from the tools to the model");
    }

    #[test]
    fn stages_surround_the_turn_of_a_react_graph() {
        let (targets, edges) = drawn(AgentKind::React);
        let fixed = [REASONING, TOOL, EMPTY_BACK, INVALID_REPORT, INVALID_PARALLEL, REJECT, FORCED_EXIT, "sub"];
        assert_eq!(targets, fixed);
        let edge = |from: &str, to: &str| format!("{from} {to}");
        for edge in [
            edge("START", "front"),
            edge("front", SYSTEM),
            edge(SYSTEM, REASONING),
            edge(TOOL, REASONING),
            edge(REJECT, REASONING),
            edge("sub", REASONING),
            edge(EMPTY_BACK, "back1"),
            edge("back1", "back2"),
            edge("back2", FINAL_BACK),
            edge(FORCED_EXIT, FINAL_BACK),
            edge(FINAL_BACK, "END"),
        ] {
            assert!(edges.contains(&edge), "{edge} in {edges:?}");
        }
    }

    #[test]
    fn names_of_an_agent_are_reserved() {
        for kind in [AgentKind::Agent, AgentKind::React, AgentKind::Todo] {
            assert!(kind.nodes().iter().all(|node| kind.reserved_nodes().contains(node)), "{kind:?}");
            assert!(kind.nodes().contains(&kind.model_node()) && kind.nodes().contains(&kind.tool_node()), "{kind:?}");
            assert!(kind.reserved_tools().contains(&READ_EARLIER), "{kind:?}");
        }
        assert!(AgentKind::React.reserved_nodes().contains(&TODO_INCOMPLETE));
    }
}
