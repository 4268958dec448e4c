//! How a message is written down: one flat object, with its `role` and the fields of that role.
//!
//! Written by hand, because a flattened, tagged enum would have to collect every message in memory before it could be
//! read, and could not tell `MessagePack` the number of its fields before it is written.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Body, Content, Message, Reasoning, ToolCall, ToolStatus, Usage};

/// The role.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    System,
    User,
    Assistant,
    Tool,
    Remove,
}

/// A message as an object. Fields that the role does not have are left out.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "a message: an object with a `role` and its `content`")]
struct Form<'a> {
    role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Cow<'a, Content>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    calls: Cow<'a, [ToolCall]>,
    #[serde(default, skip_serializing_if = "is_empty")]
    reasoning: Cow<'a, [Reasoning]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<ToolStatus>,
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

impl<'a> Form<'a> {
    fn new(role: Role, id: Option<&'a str>, content: Option<&'a Content>) -> Self {
        Self {
            role,
            id: id.map(Cow::Borrowed),
            content: content.map(Cow::Borrowed),
            calls: Cow::Borrowed(&[]),
            reasoning: Cow::Borrowed(&[]),
            usage: None,
            tool_call_id: None,
            name: None,
            status: None,
        }
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let id = self.id.as_deref();
        let form = match &self.body {
            Body::System { content } => Form::new(Role::System, id, Some(content)),
            Body::User { content } => Form::new(Role::User, id, Some(content)),
            Body::Assistant { content, calls, usage, reasoning } => Form {
                calls: Cow::Borrowed(calls),
                reasoning: Cow::Borrowed(reasoning),
                usage: *usage,
                ..Form::new(Role::Assistant, id, Some(content))
            },
            Body::Tool { content, tool_call_id, name, status } => Form {
                tool_call_id: Some(Cow::Borrowed(tool_call_id)),
                name: name.as_deref().map(Cow::Borrowed),
                status: Some(*status),
                ..Form::new(Role::Tool, id, Some(content))
            },
            Body::Remove => Form::new(Role::Remove, id, None),
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(deserializer)?;
        let content = form.content.map(Cow::into_owned);
        let missing = |field| move || D::Error::missing_field(field);
        let body = match form.role {
            Role::System => Body::System { content: content.ok_or_else(missing("content"))? },
            Role::User => Body::User { content: content.ok_or_else(missing("content"))? },
            Role::Assistant => Body::Assistant {
                content: content.unwrap_or_default(),
                calls: form.calls.into_owned(),
                reasoning: form.reasoning.into_owned(),
                usage: form.usage,
            },
            Role::Tool => Body::Tool {
                content: content.ok_or_else(missing("content"))?,
                tool_call_id: form.tool_call_id.ok_or_else(missing("tool_call_id"))?.into_owned(),
                name: form.name.map(Cow::into_owned),
                status: form.status.unwrap_or_default(),
            },
            Role::Remove => Body::Remove,
        };
        Ok(Self { id: form.id.map(Cow::into_owned), body })
    }
}
