//! What agents are made of. So far: messages, and the channel that holds a conversation.

mod message;
mod messages;

pub use message::{Body, Content, Message, Part, ToolCall, ToolStatus, Usage};
pub use messages::Messages;
