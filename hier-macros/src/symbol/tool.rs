//! The words of `#[tool]`.

use super::{CRATE, DESCRIPTION, NAME, RETRY, TIMEOUT};

/// Option of a tool: a person must approve each call.
pub(crate) const NEEDS_APPROVAL: &str = "needs_approval";
/// Option of a tool: each call is made once.
pub(crate) const STEP: &str = "step";
/// What can stand in `#[tool(…)]`.
pub(crate) const TOOL_OPTIONS: &[&str] = &[NAME, DESCRIPTION, NEEDS_APPROVAL, STEP, TIMEOUT, RETRY, CRATE];

/// Attribute of a parameter: what a node could take, and the model does not see.
pub(crate) const INJECT: &str = "inject";
/// Attribute of a parameter: a struct whose fields are the arguments.
pub(crate) const ARGS: &str = "args";
/// Attribute of a parameter: what stands for an argument that is left out.
pub(crate) const DEFAULT: &str = "default";
/// The attributes of parameters.
pub(crate) const PARAMETER_ATTRIBUTES: &[&str] = &[INJECT, ARGS, DEFAULT];
/// A doc comment.
pub(crate) const DOC: &str = "doc";
/// The attributes that the compiler takes on parameters.
pub(crate) const LINTS: &[&str] = &["allow", "cfg", "cfg_attr", "deny", "expect", "forbid", "warn"];

/// The last segments of the types that a tool is given.
pub(crate) const RUN: &str = "Run";
/// The context that all agents have, as a part of theirs.
pub(crate) const BASE_CONTEXT: &str = "BaseContext";
/// The call that a tool answers.
pub(crate) const TOOL_CALL: &str = "ToolCall";
/// The id of the call that a tool answers.
pub(crate) const TOOL_CALL_ID: &str = "ToolCallId";
/// An argument that may be left out.
pub(crate) const OPTION: &str = "Option";
/// What a tool returns that is over a state.
pub(crate) const STATEFUL_OUTPUTS: &[&str] = &["Command", "ToolOutput"];
