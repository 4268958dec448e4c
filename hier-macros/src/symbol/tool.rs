//! The words of `#[tool]`.

use super::{CRATE, DESCRIPTION, NAME, RETRY, TIMEOUT};

// Options of a tool.
pub(crate) const NEEDS_APPROVAL: &str = "needs_approval";
pub(crate) const STEP: &str = "step";
pub(crate) const TOOL_OPTIONS: &[&str] = &[NAME, DESCRIPTION, NEEDS_APPROVAL, STEP, TIMEOUT, RETRY, CRATE];

// Attributes of a parameter.
pub(crate) const INJECT: &str = "inject";
pub(crate) const ARGS: &str = "args";
pub(crate) const DEFAULT: &str = "default";
pub(crate) const PARAMETER_ATTRIBUTES: &[&str] = &[INJECT, ARGS, DEFAULT];
pub(crate) const DOC: &str = "doc";

/// The attributes that the compiler accepts on parameters.
pub(crate) const LINTS: &[&str] = &["allow", "cfg", "cfg_attr", "deny", "expect", "forbid", "warn"];

// The last path segments of the types of parameters.
pub(crate) const RUN: &str = "Run";
pub(crate) const BASE_CONTEXT: &str = "BaseContext";
pub(crate) const TOOL_CALL: &str = "ToolCall";
pub(crate) const TOOL_CALL_ID: &str = "ToolCallId";
pub(crate) const OPTION: &str = "Option";

/// The results of a tool that have a state as their argument.
pub(crate) const STATEFUL_OUTPUTS: &[&str] = &["Command", "ToolOutput"];
