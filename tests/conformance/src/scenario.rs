//! A graph scenario: the graphs and the calls. The answers that LangGraph gave have no field here.

use std::collections::BTreeMap;

use hier_core::Durability;
use hier_core::graph::EdgeEnd;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::shapes::{RawAction, RawBranch, RawCall};

/// A mapping of channel names to values.
pub(crate) type Object = Map<String, Value>;

pub(crate) struct Scenario {
    /// The graph that is called.
    pub(crate) root: Graph,
    pub(crate) settings: Settings,
}

#[derive(Deserialize)]
pub(crate) struct Graph {
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) nodes: BTreeMap<String, Node>,
    #[serde(default)]
    pub(crate) edges: Vec<Edge>,
    #[serde(default)]
    pub(crate) branches: Vec<Branch>,
    #[serde(default)]
    pub(crate) interrupt_before: Vec<String>,
    #[serde(default)]
    pub(crate) interrupt_after: Vec<String>,
}

/// The parts of a scenario other than its root graph.
#[derive(Deserialize)]
pub(crate) struct Settings {
    #[serde(default)]
    pub(crate) subgraphs: BTreeMap<String, Graph>,
    #[serde(default)]
    pub(crate) checkpointer: bool,
    pub(crate) calls: Vec<Call>,
}

/// The rule by which a channel merges writes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    Last,
    Ephemeral,
    Append,
    Sum,
    Mul,
    Max,
    Min,
    Or,
    Merge,
    ById,
}

/// A node: a list of actions, or the subgraph that it runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    #[serde(default, rename = "do")]
    pub(crate) actions: Vec<Action>,
    pub(crate) retry: Option<u32>,
    #[serde(default)]
    pub(crate) defer: bool,
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    pub(crate) graph: Option<String>,
    /// Actions of the error handler, which runs after the last retry has failed.
    pub(crate) handler: Option<Vec<Action>>,
    /// Set if the node's subgraph keeps its state from call to call.
    #[serde(default)]
    pub(crate) keeps: bool,
}

/// One thing that a node does.
#[derive(Clone, Deserialize)]
#[serde(try_from = "RawAction")]
pub(crate) enum Action {
    Write(Object),
    Overwrite(Object),
    Observe { what: String, into: String },
    Interrupt { question: Value, into: String },
    Emit(Value),
    Goto(Vec<String>),
    Send(Vec<Send>),
    Fail(Fail),
    Parent(Parent),
}

/// A command of a subgraph's node to the parent graph.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parent {
    #[serde(default)]
    pub(crate) update: Object,
    #[serde(default)]
    pub(crate) goto: Vec<String>,
}

/// A target of a command: a node, or a Send.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected the name of a node, or an object with `to` and `input`")]
pub(crate) enum Target {
    Node(String),
    Send(Send),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    pub(crate) to: String,
    pub(crate) input: Value,
}

/// The number of attempts that fail before the node succeeds.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fail {
    pub(crate) times: u32,
}

/// An edge from one node, or from several nodes that it waits for, to one node or several.
#[derive(Deserialize)]
pub(crate) struct Edge(pub(crate) Ends, pub(crate) Ends);

/// An end of an edge.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the name of a node or a list of such names")]
pub(crate) enum Ends {
    One(String),
    Many(Vec<String>),
}

impl Ends {
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// A route.
#[derive(Deserialize)]
#[serde(try_from = "RawBranch")]
pub(crate) enum Branch {
    /// Chooses the targets by comparing a channel with a bound.
    Below { from: String, on: String, bound: f64, then: Vec<String>, otherwise: Vec<String> },
    /// Sends each item of a channel to a node.
    Each { from: String, each: String, to: String, item: String },
}

/// A call of the graph.
#[derive(Deserialize)]
#[serde(try_from = "RawCall")]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) thread: String,
    pub(crate) recursion_limit: usize,
    /// The index of the addressed snapshot in the history, newest first. Defaults to the current state.
    pub(crate) from: Option<usize>,
    /// The durability mode of the run.
    pub(crate) durability: Option<Durability>,
}

/// The input of a resumed run.
pub(crate) struct Given {
    pub(crate) answer: Option<Answer>,
    pub(crate) update: Option<Object>,
    pub(crate) goto: Vec<Target>,
}

/// An answer to the only open question, or answers to questions identified by their text.
pub(crate) enum Answer {
    One(Value),
    ByText(Vec<(Value, Value)>),
}

/// The operation of a call.
pub(crate) enum Ask {
    /// Starts a run with this input, or continues the thread if the input is null.
    Invoke(Value),
    /// Resumes a run.
    Resume(Given),
    /// Updates the state as this node. Defaults to the node that ran last.
    Update(Object, Option<String>),
    /// Reads the current state of the thread.
    State,
    /// Reads the history of the thread.
    History,
}

/// Parses the name of a node, `START` or `END`.
pub(crate) fn place(name: &str) -> EdgeEnd {
    match name {
        "START" => EdgeEnd::Start,
        "END" => EdgeEnd::End,
        name => EdgeEnd::from(name),
    }
}
