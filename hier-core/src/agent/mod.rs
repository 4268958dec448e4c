//! What agents are made of: the state and context that each has, messages, models, tools; and the agents themselves,
//! alone or in hierarchies.

mod base;
mod budget;
mod builder;
mod child;
mod context;
mod extended;
mod frame;
mod member;
mod message;
mod message_form;
mod messages;
mod messages_trim;
mod model;
mod policy;
mod progress;
mod react;
mod record;
mod record_tape;
mod scripted;
mod stuck;
mod todo_list;
mod tool;
pub(crate) mod tool_arguments;
pub(crate) mod tool_attempts;
mod tool_output;
pub(crate) mod tool_schema;

pub use schemars;

pub use base::{
    BaseState, BaseStateChannels, BaseStateSetters, BaseStateUpdate, BaseStateWrite, DEFAULT_STATE_ITERATIONS, FileRef,
};
pub use budget::{Budget, Spent};
pub use builder::{AgentBuilder, Subagent};
pub use context::{BaseContext, FileStore};
pub use extended::{DynBaseState, DynBaseUpdate, DynBaseWrite};
pub use frame::{Frame, SubagentStack};
pub use message::{Body, Content, Message, Part, ToolCall, ToolStatus, Usage};
pub use messages::Messages;
pub use model::{
    ChatChunk, ChatModel, ChatOptions, ChatRequest, ChatResponse, ChatStream, ModelError, OutputSpec, ToolSpec,
};
pub use policy::SubagentPolicy;
pub use progress::{Calls, Progress};
pub use react::{Approval, ApprovalRequest, DEFAULT_MAX_ITERATIONS, IntoPrompt, ToolErrors};
pub use record::RecordedModel;
pub use scripted::ScriptedModel;
pub use stuck::AgentStuck;
pub use todo_list::{TodoList, TodoLists};
pub use tool::{NamedTool, Tool, ToolOutput};
pub use tool_output::{IntoToolOutput, Json, ToolCallId};
pub use tool_schema::{ToolArgument, schema_of};

#[doc(hidden)]
pub use builder::agent;
#[doc(hidden)]
pub use member::{
    FieldsSpec, HookOutput, Member, MemberCode, MemberSpec, PolicySpec, Returnable, crosses, first_doubled,
    is_reserved, returnable,
};

/// The channel that holds the frames.
pub(crate) const STACK: &str = "__subagent_stack__";
