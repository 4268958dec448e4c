//! Agents, alone and in hierarchies: the state and context that each has, messages, models, tools.
//!
//! An agent is a graph of this engine that asks a model what to do. `graph!` declares it, as a `ReactGraph`, or as a
//! `TodoGraph`, which has a list of things to do and reports once it is done; [`AgentBuilder`] builds the same at run
//! time.
//!
//! ```
//! use hier_testkit::ScriptedModel;
//! use hier_core::prelude::*;
//! use serde_json::json;
//!
//! #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! struct Filing {
//!     #[state(flatten)]
//!     base: BaseState,
//!     artifact: Option<String>,
//! }
//!
//! graph! {
//!     /// Files a tax return.
//!     Desk<Filing> = ReactGraph {
//!         system: "You run the filing desk.",
//!         tools: [rate],
//!         subagents: [Extractor { merge_fields: [artifact] }],
//!     }
//! }
//!
//! graph! {
//!     /// Extracts what matters from a document.
//!     Extractor<Filing> = ReactGraph { max_iterations: 8, report_into: artifact }
//! }
//!
//! /// The tax rate of a year.
//! #[tool]
//! async fn rate(year: u16) -> String {
//!     format!("{year}: 7 %")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let call = |name: &str, args| Message::calls("", [ToolCall { name: name.into(), args, id: name.into() }]);
//! let model = ScriptedModel::new([
//!     call("extractor", json!({"task": "read the W-2"})),
//!     call("report_to_supervisor", json!({"report": "wages: 100"})),
//!     call("finish_task", json!({"result": "filed"})),
//! ]);
//! let out = Desk::compile_as_root().invoke(Filing::update(), Config::default(), BaseContext::new(model)).await?;
//! assert_eq!(out.state().artifact.as_deref(), Some("wages: 100"));
//! # Ok(())
//! # }
//! ```
//!
//! # Fields of an agent
//!
//! | field | what it says |
//! |---|---|
//! | `system`, `reasoning` | what the model is told to be, and what it is asked each time: a text, or an `fn(&State) -> String` |
//! | `tools` | the `#[tool]` functions that it can call |
//! | `tool_errors` | [`ToolErrors`]: whether a tool that fails fails the run, or is told to the model |
//! | `subagents` | the graphs that it can call: agents, `SimpleGraph`s, any `Graph` |
//! | `parallel_subagents: true` | it may call several of them at once |
//! | `front`, `back` | graphs without a model that run before it is asked and after it has reported, in order |
//! | `max_iterations` | how often it is asked at most ([`DEFAULT_MAX_ITERATIONS`]) |
//! | `report_into` | another channel that its report is written to |
//! | `reports_to_supervisor` | whether it has somebody to report to; a root has not |
//! | `todo_check`, `todo_refusal` | of a `TodoGraph`: an `fn(&State) -> bool` that says when it may report, and what it is told otherwise |
//!
//! Every kind of graph can say what it is as a subagent: `description`, `args` (a struct with `Deserialize` and
//! `JsonSchema`; the graph reads it with [`BaseState::args`]), `policy`, and `on_entry` and `on_exit` (functions like
//! nodes, synchronous or not; what `on_entry` writes is there when the graph starts, what `on_exit` writes reaches the
//! supervisor). A root is entered with each new input, and left when its run finishes: what `on_exit` writes is stored with
//! the last step.
//!
//! # Policies
//!
//! Where an agent is attached, or with the agent itself as `policy: Policy { … }`, stands what it is given and gives back:
//! see [`SubagentPolicy`]. `Worker {}` has the defaults; `Worker` alone, without a policy of its own, shares its
//! supervisor's state.

mod ask;
mod builder;
mod call;
mod calls;
mod failed;
mod hierarchy;
mod model;
mod nesting;
mod operator;
mod options;
mod react;
pub(crate) mod schema;
mod state;
mod stuck;
pub(crate) mod tool;
pub(crate) mod tool_node;
mod words;

pub use schemars;

pub use crate::message::{
    Body, ChatChunk, ChatResponse, Content, FinishReason, Message, Messages, Part, Reasoning, ToolCall, ToolStatus,
    Usage,
};

pub use ask::{Ask, ModelHandle, RunModel};
pub use builder::AgentBuilder;
pub use failed::AgentFailed;
pub use hierarchy::policy::SubagentPolicy;
pub use hierarchy::subagent::Subagent;
pub use model::{ChatModel, ChatRequest, ChatStream, ModelError, OutputSpec, ToolSpec};
pub use operator::{Approval, ApprovalRequest, OperatorQuestion, ask_operator};
pub use options::{Effort, ModelOptions, PromptCache, ToolChoice};
pub use react::{DEFAULT_MAX_ITERATIONS, IntoPrompt};
pub use schema::{ToolArgument, schema_of};
pub use state::base::{
    BaseState, BaseStateChannels, BaseStateSetters, BaseStateUpdate, BaseStateWrite, DEFAULT_STATE_ITERATIONS, FileRef,
};
pub use state::budget::{Budget, Spent};
pub use state::context::{AgentContext, BaseContext, FileStore};
pub use state::dynamic::{DynBaseState, DynBaseUpdate, DynBaseWrite};
pub use state::frame::{Frame, SubagentStack};
pub use state::progress::{Calls, Progress};
pub use state::todo::{TodoList, TodoLists};
pub use state::turn::{AgentEnd, AgentLimit, AgentTurn};
pub use stuck::AgentStuck;
pub use tool::errors::ToolErrors;
pub use tool::output::{IntoToolOutput, Json, ToolCallId};
pub use tool::{DeclaredTool, NamedTool, Tool, ToolOutput};
pub use tool_node::ToolNode;

#[doc(hidden)]
pub use builder::agent;
#[doc(hidden)]
pub use hierarchy::member::{
    HookOutput, Member, Membership, Returnable, crosses, first_doubled, is_callable, is_reserved, returnable,
};
#[doc(hidden)]
pub use hierarchy::policy_spec::{FieldsSpec, PolicySpec};
#[doc(hidden)]
pub use react::{AnswerChannel, ArgsSpec};
