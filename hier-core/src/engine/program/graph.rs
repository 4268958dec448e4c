//! A compiled graph: its nodes and routes, in the order of its plan.

use std::ops::Deref;
use std::sync::Arc;

use hier_spec::GraphSpec;
use serde_json::{Map, Value, json};

use super::{Child, Hooks, Join, NodeCache, NodeDef, Plan, Prepare, Routing, SecretChannel, SendArg};
use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, SendRecord, codec};
use crate::error::{NodeError, RunError};
use crate::message::Message;
use crate::question::{QuestionFacts, QuestionType};
use crate::state::{Reads, Values};

/// A function of a route. It reads the state and adds the destinations to the [`Routing`].
pub type RouteFn<S> = Arc<dyn Fn(&S, &mut Routing) -> Result<(), NodeError> + Send + Sync>;

/// The spec of a graph, which is either static or owned.
#[derive(Clone)]
pub enum SpecRef {
    /// The spec of a graph that `graph!` declares.
    Static(&'static GraphSpec),
    /// The spec of a graph that is built at run time.
    Owned(Arc<GraphSpec>),
}

impl Deref for SpecRef {
    type Target = GraphSpec;

    fn deref(&self) -> &GraphSpec {
        match self {
            Self::Static(spec) => spec,
            Self::Owned(spec) => spec,
        }
    }
}

/// A compiled graph without its checkpointer and store. Its nodes and routes have the order of the spec.
pub struct Program<S: Values, C> {
    /// The nodes and edges of the graph as data.
    pub spec: SpecRef,
    pub(crate) plan: Arc<Plan>,
    pub(crate) nodes: Vec<NodeDef<S, C>>,
    pub(crate) routes: Vec<RouteFn<S>>,
    pub(crate) hooks: Hooks<S, C>,
    /// The channels of the state.
    pub channels: Arc<[ChannelSpec]>,
    /// Makes the initial state of a new thread.
    pub initial: Arc<dyn Fn() -> S + Send + Sync>,
    pub(crate) cache: NodeCache<S>,
    /// Pairs of an earlier and the current name of a node or of the graph.
    pub(crate) renamed: Vec<(String, String)>,
    /// True if the graph calls a model to decide.
    pub(crate) is_agent: bool,
    /// True if the graph is a part of its outer graph. The events of its nodes are then events of the outer graph.
    pub(crate) is_part: bool,
    /// True if the graph accepts everything that LangGraph accepts.
    pub(crate) lenient: bool,
    /// The channel for messages from outside.
    pub(crate) inbox: Option<usize>,
    /// The data that the graph may read and send, according to the trust labels of its tools.
    pub trust: hier_spec::trust::GraphTrust,
    /// The declared questions of the graph and of all graphs within it.
    pub(crate) questions: QuestionFacts,
    /// The declared questions of a graph that was built at run time.
    pub(crate) asked: Vec<QuestionType>,
}

clone_fields! {
    [S: Values, C] Program<S, C> {
        spec, plan, nodes, routes, hooks, channels, initial, cache, renamed, is_agent, is_part, lenient, inbox, trust,
        questions, asked,
    }
}

impl<S: Values, C> Program<S, C> {
    /// Returns the code that prepares each input of this graph. Defaults to that of the first part that has such code.
    pub(crate) fn prepare(&self) -> Option<Prepare<S>> {
        let parts = || self.children().find_map(|child| child.prepare());
        let prepare = self.hooks.prepare.clone().or_else(parts);
        let (Some(mark), Some(prepare)) = (&self.hooks.mark_input, &prepare) else {
            return self.hooks.mark_input.clone().or(prepare);
        };
        let (mark, prepare) = (mark.clone(), prepare.clone());
        Some(Arc::new(move |state, withdrawn, input| prepare(state, withdrawn, mark(state, withdrawn, input))))
    }

    /// Returns true if the graph or one of its subgraphs calls a model.
    #[doc(hidden)]
    pub fn asks_model(&self) -> bool {
        self.is_agent || self.children().any(|child| child.asks_model())
    }

    pub(crate) fn hides(&self, channel: &str) -> bool {
        self.channels.iter().any(|spec| spec.secret && spec.name == channel)
    }

    /// Returns the secret channels of this graph, then those of the graphs in it.
    pub(crate) fn secret_channels(&self) -> Vec<SecretChannel> {
        let (graph, own) = (self.plan.graph(), self.channels.iter().filter(|channel| channel.secret));
        let own = own.map(|channel| SecretChannel { graph: graph.to_owned(), channel: channel.name.to_string() });
        own.chain(self.children().flat_map(|child| child.erased().secret_channels())).collect()
    }

    /// Returns the questions that this graph and the graphs in it declare, each once.
    pub(crate) fn question_types(&self) -> Vec<QuestionType> {
        let mut found = self.questions.types();
        let below = self.children().flat_map(|child| child.erased().question_types());
        for question in self.asked.iter().copied().chain(below) {
            if !found.iter().any(|known| known.is_same(&question)) {
                found.push(question);
            }
        }
        found
    }

    pub(crate) fn no_json(&self, error: &serde_json::Error) -> RunError {
        let reason = format!("it cannot be serialized to JSON: {error}");
        RunError::Encode { graph: self.plan.graph().to_owned(), what: "the state".to_owned(), reason }
    }

    /// Encodes a message for the inbox channel. The result is the value of the channel, or a list with the message as
    /// its only item.
    pub(crate) fn fit(&self, value: Vec<u8>) -> Result<Vec<u8>, String> {
        let inbox = self.inbox.ok_or("the graph has no inbox: declare one with `inbox: channel`")?;
        let takes = |value: &[u8]| {
            let mut state = (self.initial)();
            let write = state.write_from(inbox, false, value).map_err(|error| error.to_string())?;
            state.reduce(write).map_err(|error| error.to_string())
        };
        let Err(error) = takes(&value) else { return Ok(value) };
        // An encoded list with one item: the byte of the codec, the byte of the list, the item.
        let list = value.iter().take(1).chain(&[0x91]).chain(value.iter().skip(1)).copied().collect::<Vec<u8>>();
        let name = &self.channels[inbox].name;
        let Err(item) = takes(&list) else { return Ok(list) };
        // If the inbox is a conversation, a text becomes a message from the user.
        if let Ok(text) = codec::decode::<String>(&value)
            && let Ok(said) = codec::encode(&[Message::user(text)])
            && takes(&said).is_ok()
        {
            return Ok(said);
        }
        Err(format!("the message fits the inbox `{name}` neither as its value ({error}) nor as one item ({item})"))
    }

    /// Encodes a Send. A state for a subgraph is encoded by the names of its channels.
    pub(crate) fn send_record(&self, node: usize, arg: &SendArg) -> Result<SendRecord, CodecError> {
        let state = self.child(node).and_then(|child| child.pack(arg));
        let name = self.plan.shared_name(node);
        let payload = state.unwrap_or_else(|| arg.encode());
        let payload = payload
            .map_err(|error| CodecError::new(format!("the payload sent to `{name}` cannot be stored: {error}")))?;
        Ok(SendRecord::new(name.clone(), payload))
    }

    /// Returns the rank of a node that was stored by its current or an earlier name.
    pub(crate) fn node(&self, name: &str) -> Result<usize, CodecError> {
        let renamed = self.renamed.iter().find(|(old, _)| old == name).map(|(_, new)| new.as_str());
        self.plan.find(renamed.unwrap_or(name)).ok_or_else(|| {
            CodecError::new(format!(
                "the node `{name}` runs next, but the graph no longer has it: restore it (`graph!` has \
                 `{name} = function`), or add `.renamed(\"{name}\", …)` to the compiled graph"
            ))
        })
    }

    /// Returns the number of the join that was stored under this name, which may contain earlier names of nodes.
    pub(crate) fn join(&self, stored: &str) -> Option<usize> {
        let names = |node: usize| -> Vec<&str> {
            let current = self.plan.name(node);
            let earlier = self.renamed.iter().filter(|(_, new)| new == current).map(|(old, _)| old.as_str());
            earlier.chain([current]).collect()
        };
        let joins = &self.plan.joins;
        joins.iter().position(|join| *join.name == *stored).or_else(|| {
            let is_join = |join: &Join| {
                let from: Vec<Vec<&str>> = join.from.iter().map(|node| names(*node)).collect();
                hier_spec::names::is_join(stored, &join.name, &from, &names(join.target))
            };
            joins.iter().position(is_join)
        })
    }

    /// Returns true if a node reads the payloads of Sends.
    pub(crate) fn takes_sent(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| {
            // A subgraph reads the payload as its state, or a subagent as the call from its supervisor.
            let reads_state = node.reads.iter().any(|reads| matches!(reads, Reads::State | Reads::Channels(_)));
            let reads_sent = node.reads.iter().any(|reads| matches!(reads, Reads::Input | Reads::Sent));
            node.child.is_some() || reads_sent || !reads_state
        })
    }

    /// Returns the channels as a JSON Schema. A channel whose type has no `JsonSchema` has an empty schema, and secret
    /// channels are `writeOnly`.
    pub(crate) fn state_schema(&self) -> Value {
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        let mut properties = Map::new();
        for (channel, spec) in self.channels.iter().enumerate() {
            let schema = S::channel_schema(channel, &mut generator);
            let mut schema = schema.map_or_else(|| json!({}), Into::into);
            if spec.secret {
                schema = json!({ "allOf": [schema], "writeOnly": true });
            }
            properties.insert(spec.name.to_string(), schema);
        }
        let mut state = json!({ "title": self.spec.name, "type": "object", "properties": properties });
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            state["$defs"] = Value::Object(definitions);
        }
        state
    }

    /// Returns the state of a task that a Send started, if the node reads the state. The payload is an object of
    /// channels, and missing channels have their initial values. The payload is encoded and decoded, so that the node
    /// sees the same state if the Send was stored.
    pub(crate) fn sent_state(&self, node: usize, arg: Option<&SendArg>) -> Result<Option<S>, CodecError> {
        let Some(arg) = arg.filter(|_| !self.takes_sent(node)) else { return Ok(None) };
        let name = self.plan.name(node);
        let fields = codec::unpack_fields(&arg.encode()?)?;
        let fields = fields.ok_or_else(|| {
            CodecError::new(format!("`{name}` reads the state, but its payload is not an object of channels"))
        })?;
        let mut state = (self.initial)();
        for (field, value) in fields {
            let channel = self.channels.iter().position(|spec| *spec.name == *field).ok_or_else(|| {
                let tail = hier_spec::did_you_mean(&field, self.channels.iter().map(|spec| &*spec.name));
                CodecError::new(format!("`{name}` is sent a state with `{field}`, which is not a channel{tail}"))
            })?;
            let unfit = |error| CodecError::new(format!("channel `{field}` of the state sent to `{name}`: {error}"));
            state.load(channel, &value).map_err(unfit)?;
        }
        Ok(Some(state))
    }

    fn children(&self) -> impl Iterator<Item = &Child<S, C>> {
        self.nodes.iter().filter_map(|node| node.child.as_ref())
    }

    pub(crate) fn child(&self, node: usize) -> Option<&Child<S, C>> {
        self.nodes.get(node).and_then(|node| node.child.as_ref())
    }
}
