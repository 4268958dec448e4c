//! The parameters and results of tool functions.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::ToolOutput;
use hier_checkpoint::message::{Content, Message};
use hier_core::graph::Command;
use hier_core::state::{Contains, Values};
use hier_core::{IntoNodeError, NodeError};

/// The id of the current tool call. If a `#[tool]` function has a parameter of this type, the parameter receives the
/// id. The model does not see this parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolCallId(String);

impl ToolCallId {
    /// Creates an id from a string.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the id as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for ToolCallId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ToolCallId> for String {
    fn from(id: ToolCallId) -> Self {
        id.0
    }
}

/// A wrapper for the result of a tool function: `Ok(Json(rates))`. The model receives the wrapped value as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// A type that a `#[tool]` function can return in a graph with the state `S`.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return a `{Self}`",
    label = "returns a `{Self}`",
    note = "a tool returns text (`String`, `&'static str`, `Content`), a number or a `bool`, `Json(value)`, a `Message` or \
            several, a `Command`, or a `Result` of one of these whose error converts into `NodeError`; an update goes into a \
            command (`Command::update(…)`), any other value with `Serialize` into `hier::agent::Json(…)`"
)]
pub trait IntoToolOutput<S: Values> {
    /// Converts the return value of a tool function to the output of the tool.
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError>;
}

impl<S: Values> IntoToolOutput<S> for Content {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        Ok(ToolOutput::Content(self))
    }
}

macro_rules! as_text {
    ($($ty:ty),+) => {$(
        impl<S: Values> IntoToolOutput<S> for $ty {
            fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
                Ok(ToolOutput::Content(Content::Text(self.to_string())))
            }
        }
    )+};
}

as_text!(&'static str, Cow<'static, str>, bool, char);
as_text!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

impl<S: Values> IntoToolOutput<S> for String {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        Ok(ToolOutput::Content(Content::Text(self)))
    }
}

impl<S: Values, T: Serialize> IntoToolOutput<S> for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        let text = serde_json::to_string(&self.0).map_err(|error| {
            NodeError::permanent(format!(
                "the tool returned a `{}` that cannot be serialized to JSON: {error}",
                std::any::type_name::<T>()
            ))
        })?;
        text.into_tool_output()
    }
}

impl<S: Values> IntoToolOutput<S> for Value {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        self.to_string().into_tool_output()
    }
}

impl<S: Values> IntoToolOutput<S> for Message {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        Ok(ToolOutput::Messages(vec![self]))
    }
}

impl<S: Values> IntoToolOutput<S> for Vec<Message> {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        Ok(ToolOutput::Messages(self))
    }
}

/// A command over a part of the state is a command over the whole.
impl<S: Contains<T>, T: Values> IntoToolOutput<S> for Command<T> {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        Ok(ToolOutput::Command(self.lift()))
    }
}

impl<S: Contains<T>, T: Values> IntoToolOutput<S> for ToolOutput<T> {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        match self {
            Self::Content(content) => Ok(ToolOutput::Content(content)),
            Self::Messages(messages) => Ok(ToolOutput::Messages(messages)),
            Self::Command(command) => command.into_tool_output(),
            Self::Invalid(what) => Ok(ToolOutput::Invalid(what)),
        }
    }
}

impl<S: Values, T: IntoToolOutput<S>, E: IntoNodeError> IntoToolOutput<S> for Result<T, E> {
    fn into_tool_output(self) -> Result<ToolOutput<S>, NodeError> {
        self.map_err(IntoNodeError::into_node_error)?.into_tool_output()
    }
}
