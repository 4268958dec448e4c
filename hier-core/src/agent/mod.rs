//! What agents are made of: messages and the channel that holds a conversation, models, tools.

mod message;
mod message_form;
mod messages;
mod messages_trim;
mod model;
mod record;
mod record_tape;
mod scripted;
mod tool;
pub(crate) mod tool_arguments;
pub(crate) mod tool_attempts;
mod tool_output;
pub(crate) mod tool_schema;

pub use schemars;

pub use message::{Body, Content, Message, Part, ToolCall, ToolStatus, Usage};
pub use messages::Messages;
pub use model::{
    ChatChunk, ChatModel, ChatOptions, ChatRequest, ChatResponse, ChatStream, ModelError, OutputSpec, ToolSpec,
};
pub use record::RecordedModel;
pub use scripted::ScriptedModel;
pub use tool::{NamedTool, Tool, ToolOutput};
pub use tool_output::{IntoToolOutput, Json, ToolCallId};
pub use tool_schema::{ToolArgument, schema_of};
