//! The serialized form of a message: one flat object with its `role`, the fields of that role, and the fields of `extra`.
//!
//! Implemented manually, because a flattened, tagged enum cannot report its number of fields to `MessagePack` in advance.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Body, Citation, Content, Message, Reasoning, ToolCall, ToolStatus, Usage};

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
    Remove,
}

/// A message as an object. Fields that the role does not have are left out.
#[derive(Serialize)]
struct Form<'a> {
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a Content>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reasoning: &'a [Reasoning],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    citations: &'a [Citation],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: &'a Map<String, Value>,
}

impl<'a> Form<'a> {
    fn new(role: Role, message: &'a Message, content: Option<&'a Content>) -> Self {
        Self {
            role,
            id: message.id.as_deref(),
            content,
            calls: &[],
            reasoning: &[],
            citations: &[],
            usage: None,
            tool_call_id: None,
            name: None,
            status: None,
            extra: &message.extra,
        }
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match &self.body {
            Body::System { content } => Form::new(Role::System, self, Some(content)),
            Body::User { content } => Form::new(Role::User, self, Some(content)),
            Body::Assistant { content, calls, usage, reasoning, citations } => {
                Form { calls, reasoning, citations, usage: *usage, ..Form::new(Role::Assistant, self, Some(content)) }
            }
            Body::Tool { content, tool_call_id, name, status } => Form {
                tool_call_id: Some(tool_call_id),
                name: name.as_deref(),
                status: Some(*status),
                ..Form::new(Role::Tool, self, Some(content))
            },
            Body::Remove => Form::new(Role::Remove, self, None),
        };
        form.serialize(serializer)
    }
}
