//! The state that every agent has.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::compact::Compaction;
use crate::schema::VALUE;
use crate::state::background::BackgroundSubagents;
use crate::state::counts::{self, LayerCounts};
use crate::state::found::FoundTools;
use crate::state::frame::SubagentStack;
use crate::state::labels::ConversationLabels;
use crate::state::progress::{self, Progress};
use crate::state::todo::{self, TodoList, TodoLists};
use crate::state::turn::{AgentEnd, AgentTurn};
use hier_checkpoint::message::{Message, Messages, ToolCall};
use hier_core::NodeError;
use hier_core::reducer::Identified;
use hier_core::state::RemainingSteps;

// The derives name this crate by its absolute path.
use hier_macros::State;

/// The state of every agent. Flatten it in a custom state:
///
/// ```
/// use hier_agents::prelude::*;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Filing {
///     #[state(flatten)]
///     base: BaseState,
///     artifact: Option<String>,
/// }
///
/// let update = Filing::update().artifact("1040".to_owned()).current_agent_report("filed".to_owned());
/// # let _ = update;
/// ```
#[derive(State, Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct BaseState {
    /// The conversation between the agent and its model.
    #[reducer(messages)]
    pub messages: Messages,
    /// The conversation between the agents and the operator. The operator is the person who answers their questions.
    #[reducer(messages)]
    pub chat_with_operator: Messages,
    /// The description of the shortened conversation that the agent sends to its model. `None` if the conversation was
    /// not [compacted](crate::Compact).
    pub compaction: Option<Box<Compaction>>,
    /// The TODO list of the agent.
    #[reducer(with = todo::merge)]
    #[channel(delta)]
    pub todo_list: TodoList,
    /// The TODO lists of the agent's subagents, by the name of the subagent.
    #[reducer(with = todo::merge_lists)]
    #[channel(delta)]
    pub todo_lists: TodoLists,
    /// The arguments with which the supervisor's model called this agent. Read them with [`args`](Self::args).
    pub current_agent_args: Map<String, Value>,
    /// The agent's report: the text that it returns when its turn ends. The report of an `Agent` is its last reply, or
    /// its typed answer as JSON. During the turn, this channel can contain the report of a subagent.
    pub current_agent_report: String,
    /// The internal state of the agent's turn. To find out how the turn ended, use [`ending`](Self::ending).
    pub agent_turn: AgentTurn,
    /// The tool call with which the supervisor's model called this agent. `None` for a root.
    pub current_tool_call: Option<ToolCall>,
    /// True if the root agent has completed its task in this turn.
    #[reducer(any)]
    pub is_finished: bool,
    /// True if the work is cancelled. A tool or a node can set this channel, and the program can set it with an update
    /// of the thread's state. The agent and its supervisors then make no further model requests, and end with their
    /// current results.
    #[reducer(any)]
    pub is_cancelled: bool,
    /// The number of times that each subagent in the hierarchy was called, by the name of the subagent.
    #[reducer(with = progress::merge)]
    #[channel(delta)]
    pub progress: Progress,
    /// The counts of layers such as [`Limit`](crate::layer::Limit) since the last new input.
    #[reducer(with = counts::merge)]
    #[channel(delta)]
    pub layer_counts: LayerCounts,
    /// The trust labels of data that has entered the conversation. Labels stay for the whole thread.
    #[reducer(with = ConversationLabels::merge)]
    pub trust_labels: ConversationLabels,
    /// The tools that the model has found by search.
    #[reducer(with = FoundTools::merge)]
    #[channel(delta)]
    pub found_tools: FoundTools,
    /// The background subagents that the agent has started, by handle.
    #[reducer(with = BackgroundSubagents::merge)]
    #[channel(delta)]
    pub background_subagents: BackgroundSubagents,
    /// The number of model requests in this turn.
    pub iteration_number: u32,
    /// The maximum number of model requests in this turn.
    pub max_iterations: u32,
    /// References to files, for the program's tools and nodes. hier itself does not use this channel.
    #[reducer(by_id)]
    pub file_refs: Vec<FileRef>,
    /// The subagent calls that led from the root to this agent. Contains only the calls in which the called subagent
    /// has a policy.
    #[channel(untracked)]
    #[state(rename = "__subagent_stack__")]
    #[serde(skip)]
    pub subagent_stack: SubagentStack,
    /// The number of supersteps that the run may still take.
    pub remaining_steps: RemainingSteps,
}

impl BaseState {
    /// Returns the calls of the agent's model that have no result yet. If the agent shares its supervisor's
    /// conversation, this excludes the call that started it, which the supervisor answers.
    pub(crate) fn open_calls(&self) -> Vec<&ToolCall> {
        let mut open = self.messages.open_calls();
        if let Some(own) = &self.current_tool_call {
            open.retain(|call| (&call.name, &call.id) != (&own.name, &own.id));
        }
        open
    }

    /// Returns the calls that precede a call in the same answer of the model.
    pub(crate) fn calls_before<'a>(&'a self, call: &ToolCall) -> impl Iterator<Item = &'a ToolCall> {
        let calls = self.messages.caller_of(&call.id).map(Message::tool_calls).unwrap_or_default();
        calls.iter().take_while(|other| other.id != call.id)
    }

    /// Returns the calls without a result that precede a call in the same answer of the model.
    pub(crate) fn open_calls_before<'a>(&'a self, call: &ToolCall) -> impl Iterator<Item = &'a ToolCall> {
        let open = self.open_calls();
        self.calls_before(call).filter(move |before| open.iter().any(|other| other.id == before.id))
    }

    /// Returns the way in which the agent's turn ended, or `None` while the turn is in progress or waits for an answer
    /// to a question.
    pub fn ending(&self) -> Option<&AgentEnd> {
        self.agent_turn.end.as_ref()
    }

    /// Returns the arguments with which this agent was called, as a value of the type that the agent declares as
    /// `args`.
    ///
    /// # Errors
    ///
    /// Fails if the arguments do not fit the type.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        // A type that is not an object has a single argument.
        let inner = self.current_agent_args.get(VALUE).filter(|_| self.current_agent_args.len() == 1);
        let inner = || inner.and_then(|inner| serde_json::from_value(inner.clone()).ok());
        serde_json::from_value(Value::Object(self.current_agent_args.clone()))
            .or_else(|error| inner().ok_or(error))
            .map_err(|error| {
                NodeError::permanent(format!(
                    "the arguments of the agent do not fit the type that `args` reads: {error}"
                ))
            })
    }
}

/// The initial value of the channel [`BaseState::max_iterations`]. An agent replaces it with its own limit.
pub const DEFAULT_STATE_ITERATIONS: u32 = 40;

impl Default for BaseState {
    fn default() -> Self {
        Self {
            messages: Messages::new(),
            chat_with_operator: Messages::new(),
            compaction: None,
            todo_list: TodoList::new(),
            todo_lists: TodoLists::new(),
            current_agent_args: Map::new(),
            current_agent_report: String::new(),
            agent_turn: AgentTurn::default(),
            current_tool_call: None,
            is_finished: false,
            is_cancelled: false,
            progress: Progress::new(),
            layer_counts: LayerCounts::new(),
            trust_labels: ConversationLabels::default(),
            found_tools: FoundTools::default(),
            background_subagents: BackgroundSubagents::default(),
            iteration_number: 0,
            max_iterations: DEFAULT_STATE_ITERATIONS,
            file_refs: Vec::new(),
            subagent_stack: SubagentStack::new(),
            remaining_steps: RemainingSteps::default(),
        }
    }
}

/// A reference to a file, whose content is in the [`FileStore`](crate::FileStore) of the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// The id for [`FileStore::read`](crate::FileStore::read).
    pub id: String,
    /// The name of the file, for display.
    #[serde(default)]
    pub name: String,
    /// The media type (MIME type).
    #[serde(default)]
    pub media_type: String,
    /// The size in bytes, or `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Identified for FileRef {
    type Id = String;

    fn id(&self) -> &String {
        &self.id
    }
}
