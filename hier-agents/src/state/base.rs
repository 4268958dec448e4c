//! The state that every agent has.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::compact::Compaction;
use crate::schema::VALUE;
use crate::state::counts::{self, LayerCounts};
use crate::state::frame::SubagentStack;
use crate::state::progress::{self, Progress};
use crate::state::todo::{self, TodoList, TodoLists};
use crate::state::turn::AgentTurn;
use hier_checkpoint::message::{Messages, ToolCall};
use hier_core::NodeError;
use hier_core::reducer::Identified;
use hier_core::state::RemainingSteps;

// The derives name this crate by its absolute path.
use hier_macros::State;

/// The state that every agent has. A state of your own extends it:
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
    /// The conversation of the agent with its model.
    #[reducer(messages)]
    pub messages: Messages,
    /// The conversation of the hierarchy with its operator, a person.
    #[reducer(messages)]
    pub chat_with_operator: Messages,
    /// What is sent of a conversation that has become long, instead of all of it.
    pub compaction: Option<Box<Compaction>>,
    /// What the agent has to do.
    #[reducer(with = todo::merge)]
    #[channel(delta)]
    pub todo_list: TodoList,
    /// The lists of the agents below, by their names.
    #[reducer(with = todo::merge_lists)]
    #[channel(delta)]
    pub todo_lists: TodoLists,
    /// The arguments with which the agent was called.
    pub current_agent_args: Map<String, Value>,
    /// What the agent reports: its answer as a text.
    pub current_agent_report: String,
    /// How far the agent is in its turn, and how it ended ([`ending`](Self::ending)).
    pub agent_turn: AgentTurn,
    /// The call by which the model called the agent.
    pub current_tool_call: Option<ToolCall>,
    /// Whether the whole task is done.
    #[reducer(any)]
    pub is_finished: bool,
    /// Whether the work was called off: whoever writes it (a tool, a node, an update from outside) stops the agent, and
    /// those around it, in order.
    #[reducer(any)]
    pub is_cancelled: bool,
    /// How far the agents are.
    #[reducer(with = progress::merge)]
    #[channel(delta)]
    pub progress: Progress,
    /// What layers have counted since the run began. They write it themselves.
    #[reducer(with = counts::merge)]
    #[channel(delta)]
    pub layer_counts: LayerCounts,
    /// How often the agent has asked its model since it was called.
    pub iteration_number: u32,
    /// How often it may.
    pub max_iterations: u32,
    /// The files that the agents talk about.
    #[reducer(by_id)]
    pub file_refs: Vec<FileRef>,
    /// The agents that wait for this one. The hierarchy itself writes it.
    #[channel(untracked)]
    #[state(rename = "__subagent_stack__")]
    #[serde(skip)]
    pub subagent_stack: SubagentStack,
    /// How many supersteps the run may still take.
    pub remaining_steps: RemainingSteps,
}

impl BaseState {
    /// Returns the calls of the agent's model that have no result yet. If the agent shares its supervisor's conversation, this excludes
    /// the call that started it, which the supervisor answers.
    pub(crate) fn open_calls(&self) -> Vec<&ToolCall> {
        let mut open = self.messages.open_calls();
        if let Some(own) = &self.current_tool_call {
            open.retain(|call| (&call.name, &call.id) != (&own.name, &own.id));
        }
        open
    }

    /// The arguments with which the agent was called, as the type that it declares with `args`.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        // A type that is no object has one argument.
        let inner = self.current_agent_args.get(VALUE).filter(|_| self.current_agent_args.len() == 1);
        let inner = || inner.and_then(|inner| serde_json::from_value(inner.clone()).ok());
        serde_json::from_value(Value::Object(self.current_agent_args.clone()))
            .or_else(|error| inner().ok_or(error))
            .map_err(|error| NodeError::permanent(format!("the agent's arguments are no such type: {error}")))
    }
}

/// How often an agent may ask its model, where nothing else is said of it.
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
            iteration_number: 0,
            max_iterations: DEFAULT_STATE_ITERATIONS,
            file_refs: Vec::new(),
            subagent_stack: SubagentStack::new(),
            remaining_steps: RemainingSteps::default(),
        }
    }
}

/// A file that the agents talk about. Its content is kept elsewhere, in the context's file store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// The id, by which tools ask for the file.
    pub id: String,
    /// The name that a person would know it by.
    #[serde(default)]
    pub name: String,
    /// What kind of file: a MIME type.
    #[serde(default)]
    pub media_type: String,
    /// Its length in bytes, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Identified for FileRef {
    type Id = String;

    fn id(&self) -> &String {
        &self.id
    }
}
