//! What agents are made of: messages and the channel that holds a conversation, models, tools.

mod message;
mod messages;
mod model;
mod tool;

pub use message::{Body, Content, Message, Part, ToolCall, ToolStatus, Usage};
pub use messages::Messages;
pub use model::{
    ChatChunk, ChatModel, ChatOptions, ChatRequest, ChatResponse, ChatStream, ModelError, OutputSpec, ToolSpec,
};
pub use tool::{Tool, ToolOutput};
