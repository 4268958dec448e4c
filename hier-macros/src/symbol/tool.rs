//! The words of `#[tool]`.

use super::{CRATE, DESCRIPTION, NAME, RETRY, TIMEOUT};

// Options of a tool.
pub(crate) const NEEDS_APPROVAL: &str = "needs_approval";
pub(crate) const STEP: &str = "step";
pub(crate) const APPROVE: &str = "approve";
pub(crate) const CLIENT: &str = "client";

// Labels of a tool. A graph with `input: untrusted` has one, too.
pub(crate) const PRIVATE: &str = "private";
pub(crate) const UNTRUSTED: &str = "untrusted";
pub(crate) const SENDS: &str = "sends";

/// The labels, each with its constant.
pub(crate) const LABELS: &[(&str, &str)] = &[(PRIVATE, "PRIVATE"), (UNTRUSTED, "UNTRUSTED"), (SENDS, "SENDS")];
pub(crate) const LABEL_NAMES: &[&str] = &[PRIVATE, UNTRUSTED, SENDS];

// The values of `approve`.
pub(crate) const ALWAYS: &str = "always";
pub(crate) const TAINTED: &str = "tainted";
pub(crate) const TOOL_OPTIONS: &[&str] =
    &[NAME, DESCRIPTION, NEEDS_APPROVAL, APPROVE, CLIENT, PRIVATE, UNTRUSTED, SENDS, STEP, TIMEOUT, RETRY, CRATE];

// Attributes of a parameter.
pub(crate) const INJECT: &str = "inject";
pub(crate) const ARGS: &str = "args";
pub(crate) const DEFAULT: &str = "default";
pub(crate) const PARAMETER_ATTRIBUTES: &[&str] = &[INJECT, ARGS, DEFAULT];
pub(crate) const DOC: &str = "doc";
pub(crate) const CFG: &str = "cfg";

/// The attributes that the compiler accepts on parameters.
pub(crate) const LINTS: &[&str] = &["allow", "cfg_attr", "deny", "expect", "forbid", "warn"];

// The last path segments of the types of parameters.
pub(crate) const RUN: &str = "Run";
pub(crate) const BASE_CONTEXT: &str = "BaseContext";
pub(crate) const TOOL_CALL: &str = "ToolCall";
pub(crate) const TOOL_CALL_ID: &str = "ToolCallId";
pub(crate) const OPTION: &str = "Option";

pub(crate) const RESULT: &str = "Result";

/// The results of a tool that have a state as their argument.
pub(crate) const STATEFUL_OUTPUTS: &[&str] = &["Command", "ToolOutput"];
