//! Agents, alone and in hierarchies: their states and contexts, messages, models and tools.
//!
//! An agent is a graph of `hier-core` that asks a model what to do. `graph!` declares it, and [`AgentBuilder`] builds
//! one at run time. An `Agent` ends when its model answers without a call, or with a value of a type ([`AgentEnd`]):
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
//! Members of a hierarchy report to a supervisor. A `ReactGraph` runs until its model calls `report_to_supervisor` or, for a root,
//! `finish_task`. A `TodoGraph` also has a TODO list, and reports once it is complete.
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
//! | field | meaning |
//! |---|---|
//! | `system` | The system prompt: a string, or an `fn(&State) -> String`. |
//! | `model`, `options` | The model that the agent asks, chosen from the context, and the options of its requests ([`ModelOptions`]). |
//! | `answer`, `attempts` | `Agent` only: the channel for its typed answer, and the number of unusable answers after which it fails. |
//! | `reasoning` | `ReactGraph` and `TodoGraph` only: the user message of each request. |
//! | `tools` | `#[tool]` functions, and closures that choose a [`Toolset`] in the context. Each may have a rule for approval: `refund { approve: … }`. |
//! | `search` | `true`, or a [`ToolSearch`]: lets the model search for tools if there are many. |
//! | `layers` | [Layers](layer) around model and tool calls, outermost first. |
//! | `tool_errors` | The handling of failed tools: they fail the run (the default), or are reported to the model ([`ToolErrors`]). |
//! | `subagents` | The graphs that the model can call: agents, `SimpleGraph`s, any `Graph`. |
//! | `parallel_subagents: true` | Allows several subagent calls in one answer. By default, a subagent call must be the only call of an answer. |
//! | `front`, `back` | Graphs without a model that run before the first request and after the report, in order. |
//! | `max_iterations` | The maximum number of model requests per turn. Defaults to [`DEFAULT_MAX_ITERATIONS`]. |
//! | `max_repeats` | The maximum number of times in a row that a tool call may return the same result. An `Agent` defaults to [`DEFAULT_MAX_REPEATS`], the other kinds to no limit. |
//! | `report_into` | An additional channel for the report. |
//! | `reports_to_supervisor` | `ReactGraph` and `TodoGraph` only: `false` if the agent has no supervisor. |
//! | `todo_check`, `todo_refusal` | `TodoGraph` only: an `fn(&State) -> bool` that allows the report, and the message to a model that reports too early. |
//!
//! Every kind of graph can declare how it is called as a subagent:
//! * `description` for the supervisor's model.
//! * `args`: a struct with `Deserialize` and `JsonSchema`, which the graph reads with [`BaseState::args`].
//! * `policy`: see below.
//! * `on_entry` and `on_exit`: functions like nodes, synchronous or not. The graph starts with the writes of
//!   `on_entry`, and the supervisor receives those of `on_exit`. A root is entered with each new input and left when
//!   its run ends; the writes of `on_exit` are stored with the last step.
//!
//! # Policies
//!
//! A [`SubagentPolicy`] decides which values a subagent receives from its supervisor and which it returns. Write it
//! where the agent is attached, as `Worker { … }`, or where it is declared, as `policy: Policy { … }`. `Worker {}` has
//! the defaults. A `Worker` without any policy shares its supervisor's state.

mod agent_error;
mod ask;
mod bounds;
mod builder;
mod call;
mod coercion;
mod compact;
mod hierarchy;
pub mod layer;
mod model;
mod operator;
mod options;
#[doc(hidden)]
pub mod plumbing;
pub mod prelude;
mod price;
mod prompts;
mod react;
mod redaction;
pub(crate) mod schema;
mod state;
mod text_free;
pub(crate) mod tool;
pub(crate) mod tool_node;

// The macros refer to this crate by its absolute path, also in its own states and tests.
#[allow(unused_extern_crates)]
extern crate self as hier_agents;

pub use schemars;

pub use hier_spec::trust::{ToolTrust, TrustLabels};

pub use hier_core::message::{
    Body, ChatChunk, ChatResponse, Citation, Content, FinishReason, Message, Messages, Part, Reasoning, ToolCall,
    ToolStatus, Usage, Usd,
};

pub use agent_error::{AgentFailed, AgentStuck};
pub use ask::{ModelHandle, ModelRequest, RunModel};
pub use builder::AgentBuilder;
pub use call::pairing::paired;
pub use compact::{Clipping, Compact, Compaction, MessageMark, compacted};
pub use hierarchy::policy::SubagentPolicy;
pub use hierarchy::subagent::Subagent;
pub use model::{ChatModel, ChatRequest, ChatStream, ModelError, OutputSpec, ToolSpec};
pub use operator::{Approval, ApprovalRequest, OperatorQuestion, ask_operator};
pub use options::{Effort, ModelOptions, PromptCache, ToolChoice};
pub use price::{ModelPrice, PUBLISHED_PRICES_DATE, Prices, UnknownPrice};
pub use react::{DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_REPEATS, IntoPrompt};
pub use schema::{ToolArgument, schema_of};
pub use state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
pub use state::base::{BaseState, BaseStateUpdate, DEFAULT_STATE_ITERATIONS, FileRef};
// Names in the code that the derives generate. Programs do not name them.
#[doc(no_inline)]
pub use hier_macros::TextFree;
#[doc(hidden)]
pub use state::base::{BaseStateChannels, BaseStateSetters, BaseStateWrite};
pub use state::budget::{Budget, Spent};
pub use state::chat::{MessagesState, MessagesStateUpdate};
pub use state::client_tools::ClientTools;
pub use state::context::{AgentContext, BaseContext, FileStore};
pub use state::counts::LayerCounts;
#[doc(hidden)]
pub use state::dynamic::DynBaseWrite;
pub use state::dynamic::{DynBaseState, DynBaseUpdate};
pub use state::found::FoundTools;
pub use state::frame::{SubagentFrame, SubagentStack};
pub use state::labels::ConversationLabels;
pub use state::outcome::AgentOutcome;
pub use state::progress::{CallCounts, Progress};
pub use state::todo::{TodoList, TodoLists};
pub use state::turn::{AgentEnd, AgentLimit, AgentTurn, RejectedAnswer};
pub use text_free::TextFree;
pub use tool::approval::{
    ApprovalCondition, ApprovalMode, ApprovalRule, ApprovedTool, ArgsOf, IntoDecision, NamedArgs, ToolArgs,
};
pub use tool::catalogue::ToolsetOptions;
pub use tool::client::{ClientCall, ClientResult, ClientTool, NoResult};
pub use tool::errors::ToolErrors;
pub use tool::output::{IntoToolOutput, Json, ToolCallId};
pub use tool::requested::RequestedCall;
pub use tool::search::{DEFAULT_SEARCH_ABOVE, DEFAULT_SEARCH_RESULTS, IntoToolSearch, ToolSearch};
pub use tool::toolset::{Prefixed, ToolAnswer, Toolset};
pub use tool::{DeclaredTool, NamedTool, Tool, ToolOutput, tools};
pub use tool_node::ToolNode;
