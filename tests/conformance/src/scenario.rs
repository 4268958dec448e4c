//! A graph scenario: the graphs, and what is asked of them. There is no field for what the reference answered.

use std::collections::BTreeMap;

use hier_core::Durability;
use hier_core::graph::EdgeEnd;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::shapes::{RawAction, RawBranch, RawCall};

/// A mapping of channel names to values.
pub(crate) type Object = Map<String, Value>;

/// A graph scenario.
pub(crate) struct Scenario {
    /// The graph that is called.
    pub(crate) root: Graph,
    pub(crate) settings: Settings,
}

/// A graph.
#[derive(Deserialize)]
pub(crate) struct Graph {
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) nodes: BTreeMap<String, Node>,
    #[serde(default)]
    pub(crate) edges: Vec<Edge>,
    #[serde(default)]
    pub(crate) branches: Vec<Branch>,
}

/// What a scenario has beside its root graph.
#[derive(Deserialize)]
pub(crate) struct Settings {
    #[serde(default)]
    pub(crate) subgraphs: BTreeMap<String, Graph>,
    #[serde(default)]
    pub(crate) checkpointer: bool,
    #[serde(default)]
    pub(crate) interrupt_before: Vec<String>,
    #[serde(default)]
    pub(crate) interrupt_after: Vec<String>,
    pub(crate) calls: Vec<Call>,
}

/// How a channel merges what is written to it.
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

/// A node: what it does, or the subgraph that it runs.
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
    /// What takes over when it has failed for good.
    pub(crate) handler: Option<Vec<Action>>,
    /// Whether its graph keeps its state from call to call.
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

/// What a node of a subgraph tells the graph around it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parent {
    #[serde(default)]
    pub(crate) update: Object,
    #[serde(default)]
    pub(crate) goto: Vec<String>,
}

/// Where a command goes: to a node, or a Send.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected the name of a node, or an object with `to` and `input`")]
pub(crate) enum Target {
    Node(String),
    Send(Send),
}

/// A Send.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    pub(crate) to: String,
    pub(crate) input: Value,
}

/// How often a node fails.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fail {
    pub(crate) times: u32,
}

/// An edge: from a node, or from several that are waited for; to a node, or to several.
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
    /// The names.
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
    /// Where to go depends on whether a channel is below a bound.
    Below { from: String, on: String, bound: f64, then: Vec<String>, otherwise: Vec<String> },
    /// One Send for each item of a channel.
    Each { from: String, each: String, to: String, item: String },
}

/// A call of the graph.
#[derive(Deserialize)]
#[serde(try_from = "RawCall")]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) thread: String,
    pub(crate) recursion_limit: usize,
    /// Which snapshot of the history is addressed.
    pub(crate) from: Option<usize>,
    /// When the run's checkpoints are stored.
    pub(crate) durability: Option<Durability>,
}

/// What a run goes on with.
pub(crate) struct Given {
    pub(crate) answer: Option<Answer>,
    pub(crate) update: Option<Object>,
    pub(crate) goto: Vec<Target>,
}

/// An answer, to the one question that is open or to questions by their text.
pub(crate) enum Answer {
    One(Value),
    ByText(Vec<(Value, Value)>),
}

/// What a call asks for.
pub(crate) enum Ask {
    /// A run with this input, or (null) to go on.
    Invoke(Value),
    /// A run that goes on with this.
    Resume(Given),
    /// A change from outside, as this node or as the one that ran last.
    Update(Object, Option<String>),
    /// The thread as it is.
    State,
    /// The thread as it was.
    History,
}

/// The name of a node, `START` or `END`.
pub(crate) fn place(name: &str) -> EdgeEnd {
    match name {
        "START" => EdgeEnd::Start,
        "END" => EdgeEnd::End,
        name => EdgeEnd::from(name),
    }
}
