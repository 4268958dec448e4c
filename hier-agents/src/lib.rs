//! Agents, alone and in hierarchies: their states and contexts, messages, models and tools.
//!
//! An agent is a graph of `hier-core` that asks a model what to do. Declare an agent with `graph!`, or build one at run
//! time with [`AgentBuilder`]. An `Agent` ends when its model replies without a tool call, or, if the agent has a typed
//! answer, with a value of that type ([`AgentEnd`]):
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
//! Agents of two other kinds report to a supervisor. A `ReactGraph` runs until its model calls `report_to_supervisor`,
//! or `finish_task` if the agent is the root of the hierarchy. A `TodoGraph` also has a TODO list, and may report only
//! when the list is complete.
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
//! | `model` | A closure that selects the agent's model in the context: `\|desk\| &desk.smart`. Defaults to [`BaseContext::model`]. |
//! | `options` | The options of model requests ([`ModelOptions`]). |
//! | `answer` | `Agent` only: the channel for the agent's typed answer. |
//! | `attempts` | `Agent` only: the number of unusable replies of the model after which the agent fails. Defaults to 3. |
//! | `reasoning` | `ReactGraph` and `TodoGraph` only: the user message that the agent sends at the end of each request. A string, or an `fn(&State) -> String`. |
//! | `tools` | `#[tool]` functions, and closures that select a [`Toolset`] in the context. Each item may have a rule for approval: `refund { approve: … }`. |
//! | `search` | `true` or a [`ToolSearch`]. If the agent has many tools, the model then searches for the tools that it needs. |
//! | `layers` | [Layers](layer) around model and tool calls, outermost first. |
//! | `tool_errors` | The handling of a tool's error: the run fails (the default), or the model receives the error ([`ToolErrors`]). |
//! | `subagents` | The graphs that the model can call as tools: agents, and any other graph. |
//! | `parallel_subagents: true` | Allows several subagent calls in one reply of the model. By default, a call of a subagent that does not run in the background must be the only call in the reply. |
//! | `front` | Graphs without a model that run, in this order, before the first model request. |
//! | `back` | Graphs without a model that run, in this order, after the report. |
//! | `max_iterations` | The maximum number of model requests per turn. Defaults to [`DEFAULT_MAX_ITERATIONS`]. |
//! | `max_repeats` | The maximum number of consecutive equal tool calls with the same result. Defaults to [`DEFAULT_MAX_REPEATS`] for an `Agent`, and to no limit for the other kinds. |
//! | `report_into` | A channel to which the agent writes its report, in addition to `current_agent_report`. |
//! | `reports_to_supervisor` | `ReactGraph` and `TodoGraph` only: `false` if the agent has no supervisor. Its model then calls `finish_task`. |
//! | `todo_check` | `TodoGraph` only: an `fn(&State) -> bool` that returns true if the agent may report. By default, the agent may report when its TODO list is complete. |
//! | `todo_refusal` | `TodoGraph` only: the message that the model receives if it reports before `todo_check` allows the report. |
//!
//! A graph of any kind can declare how a supervisor calls it as a subagent:
//! * `description`: the purpose of the graph, for the supervisor's model.
//! * `args`: the type of the arguments, a struct with `Deserialize` and `JsonSchema`. The graph reads them with
//!   [`BaseState::args`].
//! * `policy`: the graph's own [policy](#policies).
//! * `on_entry` and `on_exit`: functions like nodes, async or not, that run when the graph is entered and left. A
//!   subagent is entered and left with each call. It starts with the writes of `on_entry`, and its supervisor receives
//!   the writes of `on_exit`. A root is entered with each new input, and left when its run finishes.
//!
//! # Policies
//!
//! A [`SubagentPolicy`] decides which values a subagent receives from its supervisor, and which values it returns.
//! Write the policy where the supervisor lists the subagent, as `subagents: [Worker { … }]`, or where the subagent is
//! declared, as `policy: Policy { … }`. `Worker {}` is a policy with all defaults. Without any policy, the subagent
//! shares its supervisor's state.

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
