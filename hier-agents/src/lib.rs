//! Agents, alone and in hierarchies: the state and context that each has, messages, models, tools.
//!
//! An agent is a graph of `hier-core` that asks a model what to do. `graph!` declares it; [`AgentBuilder`] builds the same
//! at run time. An `Agent` ends when its model answers without a call, or with a value of a type ([`AgentEnd`]):
//!
//! ```
//! use hier_testkit::ScriptedModel;
//! use hier_agents::prelude::*;
//! use serde_json::json;
//!
//! graph! {
//!     /// Answers customers.
//!     Support<BaseState> = Agent { system: "You answer customers.", tools: [weather] }
//! }
//!
//! /// The weather of a city, today.
//! #[tool]
//! async fn weather(city: String) -> String {
//!     format!("sunny in {city}")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> hier_core::Result<()> {
//! let model = ScriptedModel::new([
//!     Message::call("weather", json!({"city": "Rome"})),
//!     Message::assistant("It is sunny."),
//! ]);
//! let context = BaseContext::new(model);
//! let out = Support::compile().invoke(Message::user("Is it warm in Rome?")).context(context).await?;
//! assert_eq!(out.ending(), Some(&AgentEnd::Text));
//! assert_eq!(out.state().messages.last().map(Message::text).as_deref(), Some("It is sunny."));
//! # Ok(())
//! # }
//! ```
//!
//! Members of a hierarchy that report go on until their model calls `report_to_supervisor` or, the root, `finish_task`: a
//! `ReactGraph`, and a `TodoGraph`, which has a list of things to do and reports once it is done.
//!
//! ```
//! use hier_testkit::ScriptedModel;
//! use hier_agents::prelude::*;
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
//! # async fn main() -> hier_core::Result<()> {
//! let model = ScriptedModel::new([
//!     Message::call("extractor", json!({"task": "read the W-2"})),
//!     Message::call("report_to_supervisor", json!({"report": "wages: 100"})),
//!     Message::call("finish_task", json!({"result": "filed"})),
//! ]);
//! let out = Desk::compile_as_root().invoke(Filing::update()).context(BaseContext::new(model)).await?;
//! assert_eq!(out.state().artifact.as_deref(), Some("wages: 100"));
//! # Ok(())
//! # }
//! ```
//!
//! # Fields of an agent
//!
//! | field | what it says |
//! |---|---|
//! | `system` | what the model is told to be: a text, or an `fn(&State) -> String` |
//! | `model`, `options` | which model of the context it asks, and how that is to answer ([`ModelOptions`]) |
//! | `answer`, `attempts` | of an `Agent`: the channel that its answer is written to, and how many answers may be of no use |
//! | `reasoning` | of one that reports: what the model is asked each time |
//! | `tools` | the `#[tool]` functions that it can call, and closures that choose a [`Toolset`] of the context |
//! | `layers` | what stands around its calls of models and tools: see [`layer`] |
//! | `tool_errors` | [`ToolErrors`]: whether a tool that fails fails the run, or is told to the model |
//! | `subagents` | the graphs that it can call: agents, `SimpleGraph`s, any `Graph` |
//! | `parallel_subagents: true` | it may call several of them at once |
//! | `front`, `back` | graphs without a model that run before it is asked and after it has reported, in order |
//! | `max_iterations` | how often it is asked at most ([`DEFAULT_MAX_ITERATIONS`]) |
//! | `max_repeats` | how often in a row a call may have the same result (of an `Agent` [`DEFAULT_MAX_REPEATS`], else no limit) |
//! | `report_into` | another channel that its report is written to |
//! | `reports_to_supervisor` | of one that reports: whether it has somebody to report to; a root has not |
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
mod bounds;
mod builder;
mod call;
mod call_ids;
mod calls;
mod compact;
mod failed;
mod fit;
mod hierarchy;
pub mod layer;
mod model;
mod nesting;
mod operator;
mod options;
mod paired;
#[doc(hidden)]
pub mod plumbing;
pub mod prelude;
mod react;
mod redaction;
pub(crate) mod schema;
mod state;
mod stuck;
pub(crate) mod tool;
pub(crate) mod tool_node;
pub(crate) mod toolsets;
mod words;

// The macros name this crate by its absolute path, also in our own states and tests.
#[allow(unused_extern_crates)]
extern crate self as hier_agents;

pub use schemars;

pub use hier_core::message::{
    Body, ChatChunk, ChatResponse, Content, FinishReason, Message, Messages, Part, Reasoning, ToolCall, ToolStatus,
    Usage,
};

pub use ask::{Ask, ModelHandle, RunModel};
pub use builder::AgentBuilder;
pub use compact::{Clipping, Compact, Compaction, Mark, compacted};
pub use failed::AgentFailed;
pub use hierarchy::policy::SubagentPolicy;
pub use hierarchy::subagent::Subagent;
pub use model::{ChatModel, ChatRequest, ChatStream, ModelError, OutputSpec, ToolSpec};
pub use operator::{Approval, ApprovalRequest, OperatorQuestion, ask_operator};
pub use options::{Effort, ModelOptions, PromptCache, ToolChoice};
pub use paired::paired;
pub use react::{DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_REPEATS, IntoPrompt};
pub use schema::{ToolArgument, schema_of};
pub use state::base::{
    BaseState, BaseStateChannels, BaseStateSetters, BaseStateUpdate, BaseStateWrite, DEFAULT_STATE_ITERATIONS, FileRef,
};
pub use state::budget::{Budget, Spent};
pub use state::chat::{MessagesState, MessagesStateUpdate};
pub use state::context::{AgentContext, BaseContext, FileStore};
pub use state::counts::LayerCounts;
pub use state::dynamic::{DynBaseState, DynBaseUpdate, DynBaseWrite};
pub use state::frame::{Frame, SubagentStack};
pub use state::progress::{Calls, Progress};
pub use state::todo::{TodoList, TodoLists};
pub use state::turn::{AgentEnd, AgentLimit, AgentOutcome, AgentTurn, Draft};
pub use stuck::AgentStuck;
pub use tool::errors::ToolErrors;
pub use tool::output::{IntoToolOutput, Json, ToolCallId};
pub use tool::set::{Prefixed, ToolAnswer, Toolset};
pub use tool::{DeclaredTool, NamedTool, Tool, ToolOutput, tools};
pub use tool_node::ToolNode;
