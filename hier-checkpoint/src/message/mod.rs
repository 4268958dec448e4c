//! Conversations: messages, lists of messages, and the replies of models.

mod block;
mod calls;
mod chunk;
mod citation;
mod content;
mod form;
mod id_queues;
mod index;
mod list;
mod part;
mod read;
mod reasoning;
mod schema;
mod trim;
mod typed;
mod usage;
mod usd;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Builder;

pub use chunk::{ChatChunk, ChatResponse, FinishReason};
pub use citation::Citation;
pub use content::Content;
pub use list::Messages;
pub use part::Part;
pub use reasoning::Reasoning;
pub use typed::BadAnswer;
#[doc(hidden)]
pub use typed::{quoted, read};
pub use usage::Usage;
pub use usd::{InvalidUsd, Usd};

#[doc(hidden)]
pub use id_queues::IdQueues;
#[doc(hidden)]
pub use index::Places;

/// A message of a conversation.
///
/// In JSON, a message has a `role` (`system`, `user`, `assistant`, `tool` or `remove`), the fields of this role, an
/// `id`, and `extra`. Deserialization also accepts the formats of LangChain (`type: human`, `tool_calls`) and OpenAI.
/// Unknown fields become entries of `extra`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The id. A message without an id gets a random UUID when it is added to a [`Messages`] list.
    pub id: Option<String>,
    /// The role and the content.
    pub body: Body,
    /// Fields that a client has sent and that hier does not know, such as `additional_kwargs`, `artifact` and the
    /// `name` of a user. hier stores and streams them with the message, but does not send them to models.
    pub extra: Map<String, Value>,
}

/// The role and the content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A message with instructions for the model.
    System {
        /// The content.
        content: Content,
    },
    /// A message from a user, a supervisor or the program.
    User {
        /// The content.
        content: Content,
    },
    /// A reply of a model.
    #[non_exhaustive]
    Assistant {
        /// The content.
        content: Content,
        /// The tool calls of the reply.
        calls: Vec<ToolCall>,
        /// The token usage, if the provider reports it.
        usage: Option<Usage>,
        /// The reasoning that led to the reply or its calls, in order.
        reasoning: Vec<Reasoning>,
        /// The sources that support the reply.
        citations: Box<[Citation]>,
    },
    /// The result of a tool call.
    Tool {
        /// The result.
        content: Content,
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        name: Option<String>,
        /// The status of the call.
        status: ToolStatus,
    },
    /// A request to remove the message with the id [`Message::id`]. The reducer of a conversation carries out the
    /// request when it merges the request into the conversation. A request without an id removes all earlier messages.
    Remove,
}

/// A tool call in a model's reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments: a JSON object, or a string if the model's reply was cut off or its arguments are not JSON.
    pub args: Value,
    /// The id of the call. The message with the result contains the same id.
    pub id: String,
}

impl ToolCall {
    /// Creates a tool call with a random id.
    ///
    /// ```
    /// # use hier_checkpoint::message::{Message, ToolCall};
    /// # use serde_json::json;
    /// let both = [ToolCall::new("order", json!({ "number": 17 })), ToolCall::new("order", json!({ "number": 18 }))];
    /// assert_eq!(Message::calls("I look both up.", both).tool_calls().len(), 2);
    /// ```
    pub fn new(name: impl Into<String>, args: Value) -> Self {
        Self { name: name.into(), args, id: format!("call_{}", fresh_id().simple()) }
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }
}

/// The status of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The call succeeded.
    #[default]
    Success,
    /// The call failed. The content is the reason.
    Error,
}

impl Message {
    fn new(body: Body) -> Self {
        Self { id: None, body, extra: Map::new() }
    }

    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Body::System { content: content.into() })
    }

    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Body::User { content: content.into() })
    }

    /// Creates an assistant message without tool calls.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::calls(content, [])
    }

    /// Creates an assistant message with one tool call, which has a random id.
    ///
    /// ```
    /// # use hier_checkpoint::message::Message;
    /// # use serde_json::json;
    /// let message = Message::call("lookup_rate", json!({ "year": 2026 }));
    /// assert_eq!(message.tool_calls()[0].name, "lookup_rate");
    /// ```
    pub fn call(name: impl Into<String>, args: Value) -> Self {
        Self::calls("", [ToolCall::new(name, args)])
    }

    /// Creates an assistant message with tool calls. See [`ToolCall::new`] for an example.
    pub fn calls(content: impl Into<Content>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let calls = calls.into_iter().collect();
        Self::new(Body::Assistant {
            content: content.into(),
            calls,
            usage: None,
            reasoning: Vec::new(),
            citations: Box::default(),
        })
    }

    /// Creates the result of a tool call.
    pub fn tool(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::new(Body::Tool {
            content: content.into(),
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            status: ToolStatus::Success,
        })
    }

    /// Creates the result of a failed tool call. The content is the reason.
    pub fn tool_error(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::new(Body::Tool {
            content: content.into(),
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            status: ToolStatus::Error,
        })
    }

    /// Creates a request to remove the message with this id. If the conversation has no such message, the reducer
    /// fails.
    pub fn remove(id: impl Into<String>) -> Self {
        Self::new(Body::Remove).with_id(id)
    }

    /// Creates a request to remove all earlier messages. Messages that follow the request in the same write are kept.
    pub fn remove_all() -> Self {
        Self::new(Body::Remove)
    }

    /// Sets the id of the message.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds a field to [`extra`](Self::extra).
    #[must_use]
    pub fn with_extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// Sets the token usage of an assistant message. Has no effect on other messages.
    #[must_use]
    pub fn with_usage(mut self, cost: Usage) -> Self {
        if let Body::Assistant { usage, .. } = &mut self.body {
            *usage = Some(cost);
        }
        self
    }

    /// Sets the reasoning of an assistant message. Has no effect on other messages.
    #[must_use]
    pub fn with_reasoning(mut self, thoughts: impl IntoIterator<Item = Reasoning>) -> Self {
        if let Body::Assistant { reasoning, .. } = &mut self.body {
            *reasoning = thoughts.into_iter().collect();
        }
        self
    }

    /// Returns the reasoning that led to the message or its calls, in order.
    pub fn reasoning(&self) -> &[Reasoning] {
        match &self.body {
            Body::Assistant { reasoning, .. } => reasoning,
            _ => &[],
        }
    }

    /// Sets the [`Citation`]s of an assistant message. Has no effect on other messages.
    #[must_use]
    pub fn with_citations(mut self, sources: impl IntoIterator<Item = Citation>) -> Self {
        if let Body::Assistant { citations, .. } = &mut self.body {
            *citations = sources.into_iter().collect();
        }
        self
    }

    /// Returns the sources that support passages of the message.
    pub fn citations(&self) -> &[Citation] {
        match &self.body {
            Body::Assistant { citations, .. } => citations,
            _ => &[],
        }
    }

    /// Returns the token usage of the message, if the provider reported it.
    pub fn usage(&self) -> Option<Usage> {
        match self.body {
            Body::Assistant { usage, .. } => usage,
            _ => None,
        }
    }

    /// Returns the id of the call whose result this message is. Returns `None` for a message that is not a result.
    pub fn tool_call_id(&self) -> Option<&str> {
        match &self.body {
            Body::Tool { tool_call_id, .. } => Some(tool_call_id),
            _ => None,
        }
    }

    /// Returns the text of the message, without images and files.
    pub fn text(&self) -> String {
        self.content().map(Content::text).unwrap_or_default()
    }

    /// Returns the content. Returns `None` for a request to remove messages.
    pub fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::System { content }
            | Body::User { content }
            | Body::Assistant { content, .. }
            | Body::Tool { content, .. } => Some(content),
            Body::Remove => None,
        }
    }

    /// Returns a mutable reference to the content. Returns `None` for a request to remove messages.
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match &mut self.body {
            Body::System { content }
            | Body::User { content }
            | Body::Assistant { content, .. }
            | Body::Tool { content, .. } => Some(content),
            Body::Remove => None,
        }
    }

    /// Returns the tool calls of the message. Only assistant messages have tool calls.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant { calls, .. } => calls,
            _ => &[],
        }
    }
}

/// Returns a random id. It differs from the other ids of its conversation, so a fast generator suffices.
fn fresh_id() -> uuid::Uuid {
    Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid()
}
