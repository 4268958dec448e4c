//! Reads messages: in hier's form, and as clients of LangChain and OpenAI write them.
//!
//! The types of a state determine which values are read as messages. Values of other types are not inspected. Unknown
//! fields are kept in [`Message::extra`], so that clients lose no data.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::form::Role;
use super::{Body, Citation, Content, Message, Messages, Reasoning, ToolCall, ToolStatus, Usage, fresh_id};

/// The id with which LangChain's `RemoveMessage` removes all messages.
const REMOVE_ALL: &str = "__remove_all__";

fn role(name: &str) -> Option<Role> {
    Some(match name {
        "system" | "developer" | "SystemMessage" | "SystemMessageChunk" => Role::System,
        "user" | "human" | "HumanMessage" | "HumanMessageChunk" => Role::User,
        "assistant" | "ai" | "AIMessage" | "AIMessageChunk" => Role::Assistant,
        "tool" | "ToolMessage" | "ToolMessageChunk" => Role::Tool,
        "remove" | "RemoveMessage" => Role::Remove,
        _ => return None,
    })
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Role,
    Type,
    Id,
    Content,
    #[serde(alias = "tool_calls")]
    Calls,
    Reasoning,
    Citations,
    Usage,
    UsageMetadata,
    ToolCallId,
    Name,
    Status,
    Extra,
    Other(String),
}

#[derive(Default)]
struct Fields {
    role: Option<String>,
    kind: Option<String>,
    id: Value,
    content: Option<Content>,
    calls: Vec<ToolCall>,
    reasoning: Vec<Reasoning>,
    citations: Box<[Citation]>,
    usage: Option<Usage>,
    tool_call_id: Option<String>,
    name: Option<String>,
    status: Option<String>,
    extra: Map<String, Value>,
}

impl Fields {
    fn read<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let fields = self;
        while let Some(name) = map.next_key()? {
            match name {
                Field::Role => fields.role = map.next_value()?,
                Field::Type => fields.kind = map.next_value()?,
                Field::Id => fields.id = map.next_value()?,
                Field::Content => fields.content = Some(map.next_value()?),
                Field::Calls => fields.calls = map.next_value::<Option<_>>()?.unwrap_or_default(),
                Field::Usage => fields.usage = map.next_value()?,
                Field::ToolCallId => fields.tool_call_id = map.next_value()?,
                Field::Name => fields.name = map.next_value()?,
                Field::Status => fields.status = map.next_value()?,
                Field::Extra => fields.extra.extend(map.next_value::<Option<Map<_, _>>>()?.unwrap_or_default()),
                Field::Reasoning => {
                    fields.foreign("reasoning", map.next_value()?, |fields, list| fields.reasoning = list);
                }
                Field::Citations => {
                    fields.foreign("citations", map.next_value()?, |fields, list| fields.citations = list);
                }
                Field::UsageMetadata => {
                    fields.foreign("usage_metadata", map.next_value()?, |fields, usage| fields.usage = Some(usage));
                }
                Field::Other(name) => fields.keep(&name, map.next_value()?),
            }
        }
        Ok(())
    }

    /// Keeps a field that hier does not know. Drops empty values, which clients write for missing ones.
    fn keep(&mut self, name: &str, value: Value) {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            self.extra.insert(name.to_owned(), value);
        }
    }

    /// Reads a field whose name other formats also use. Keeps it as an extra field if it has another meaning there.
    fn foreign<T: serde::de::DeserializeOwned>(&mut self, name: &str, value: Value, set: impl FnOnce(&mut Self, T)) {
        match T::deserialize(&value) {
            Ok(read) => set(self, read),
            Err(_) => self.keep(name, value),
        }
    }

    /// Reads a message in LangChain's serialized form, with the class in `id` and the fields in `kwargs`.
    fn take_constructed<E: Error>(&mut self) -> Result<Message, E> {
        let class = self.id.as_array().and_then(|path| path.last()?.as_str()).map(str::to_owned);
        let Some(Value::Object(kwargs)) = self.extra.remove("kwargs") else { return Err(E::missing_field("kwargs")) };
        let mut inner = Self::default();
        inner.read(serde::de::value::MapDeserializer::new(kwargs.into_iter())).map_err(json::<E>)?;
        inner.role = class;
        inner.take_own()
    }

    /// Builds the message of these fields, which are empty afterwards.
    fn take_message<E: Error>(&mut self) -> Result<Message, E> {
        if self.kind.as_deref() == Some("constructor") { self.take_constructed() } else { self.take_own() }
    }

    fn take_own<E: Error>(&mut self) -> Result<Message, E> {
        let named = self.role.as_deref().and_then(role).or_else(|| self.kind.as_deref().and_then(role));
        let role = named.ok_or_else(|| match self.role.as_deref().or(self.kind.as_deref()) {
            None => E::missing_field("role"),
            Some(other) => E::custom(format!(
                "`{other}` is not a role of a message: use `system`, `user`, `assistant`, `tool` or `remove`"
            )),
        })?;
        let id = match std::mem::take(&mut self.id) {
            Value::Null => None,
            Value::String(id) => Some(id),
            other => return Err(E::custom(format!("the `id` of a message must be a string, and is `{other}`"))),
        };
        let content = self.content.take();
        let missing = || E::missing_field("content");
        let (status, name, tool_call_id) = (self.status.take(), self.name.take(), self.tool_call_id.take());
        if !matches!(role, Role::Tool) {
            for (field, value) in [("status", &status), ("name", &name), ("tool_call_id", &tool_call_id)] {
                if let Some(value) = value {
                    self.keep(field, Value::String(value.clone()));
                }
            }
        }
        let body = match role {
            Role::System => Body::System { content: content.ok_or_else(missing)? },
            Role::User => Body::User { content: content.ok_or_else(missing)? },
            Role::Assistant => Body::Assistant {
                content: content.unwrap_or_default(),
                calls: std::mem::take(&mut self.calls),
                reasoning: std::mem::take(&mut self.reasoning),
                citations: std::mem::take(&mut self.citations),
                usage: self.usage,
            },
            Role::Tool => Body::Tool {
                content: content.ok_or_else(missing)?,
                tool_call_id: tool_call_id.ok_or_else(|| E::missing_field("tool_call_id"))?,
                name,
                status: match status.as_deref() {
                    None | Some("success") => ToolStatus::Success,
                    Some("error") => ToolStatus::Error,
                    Some(other) => {
                        return Err(E::custom(format!(
                            "the `status` of a tool's result is `success` or `error`, and not `{other}`"
                        )));
                    }
                },
            },
            Role::Remove => Body::Remove,
        };
        let id = id.filter(|id| !(body == Body::Remove && id == REMOVE_ALL));
        Ok(Message { id, body, extra: std::mem::take(&mut self.extra) })
    }
}

fn json<E: Error>(error: serde_json::Error) -> E {
    E::custom(error)
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message: an object with a `role` and its `content`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Message, A::Error> {
        let mut fields = Fields::default();
        fields.read(map)?;
        fields.take_message()
    }
}

/// An item of a list of messages. LangChain also accepts a string (a user message), and a pair of a role and a content.
struct Item(Message);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageLike).map(Self)
    }
}

struct MessageLike;

impl<'de> Visitor<'de> for MessageLike {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message: an object with a `role` and its `content`, a string, or a pair of a role and a content")
    }

    fn visit_str<E>(self, text: &str) -> Result<Message, E> {
        Ok(Message::user(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Message, A::Error> {
        let missing = |place| A::Error::invalid_length(place, &self);
        let role: String = pair.next_element()?.ok_or_else(|| missing(0))?;
        let content: Content = pair.next_element()?.ok_or_else(|| missing(1))?;
        if pair.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(missing(3));
        }
        Fields { role: Some(role), content: Some(content), ..Fields::default() }.take_message()
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Message, A::Error> {
        Object.visit_map(map)
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Messages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages, one message, or a string (a user message)")
    }

    fn visit_str<E>(self, text: &str) -> Result<Messages, E> {
        Ok(Messages::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Messages, A::Error> {
        Message::deserialize(MapAccessDeserializer::new(map)).map(Messages::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Messages, A::Error> {
        let items = Vec::<Item>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(items.into_iter().map(|item| item.0).collect())
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = CallForm::deserialize(deserializer)?;
        let (name, args) = match form.function {
            Some(Function { name, arguments }) => (Some(name), Some(parsed(arguments)?)),
            None => (form.name, form.args),
        };
        Ok(Self {
            name: name.ok_or_else(|| D::Error::missing_field("name"))?,
            // Null means no arguments, as in `ToolCall::new`.
            args: match args.ok_or_else(|| D::Error::missing_field("args"))? {
                Value::Null => Value::Object(Map::new()),
                args => args,
            },
            id: form.id.unwrap_or_else(|| format!("call_{}", fresh_id().simple())),
        })
    }
}

/// A call in hier's and LangChain's form, or in OpenAI's, which has the name and the arguments in `function`.
#[derive(Deserialize)]
struct CallForm {
    name: Option<String>,
    /// `Some(Value::Null)` for null, and `None` if the field is missing.
    #[serde(default, deserialize_with = "some")]
    args: Option<Value>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Parses the arguments of a call, which OpenAI writes as a string of JSON.
fn parsed<E: Error>(arguments: Value) -> Result<Value, E> {
    match arguments {
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| E::custom(format!("the `arguments` of a call are not JSON: {error}"))),
        other => Ok(other),
    }
}
