//! Items for macro-generated code, including those of `hier-core`. Not public API, and exempt from semver.

pub use hier_core::plumbing::*;

pub use crate::builder::{AgentBuilder, IsTextFree, MayHaveText, agent, answered, probe, untrusted_input};
pub use crate::hierarchy::member::{
    Member, Membership, crosses, first_doubled, is_background_tool, is_callable, is_reserved, is_search_tool, member,
    returnable,
};
pub use crate::hierarchy::policy_spec::{FieldsSpec, PolicySpec};
pub use crate::react::prompt::{Prompt, prompt, reads_cleared, reads_messages, shows_secret};
pub use crate::react::{AnswerChannel, ArgsSpec};
pub use crate::schema::{ToolSchema, args_schema, schema_of};
pub use crate::text_free::{TextFree, assert_text_free};
pub use crate::tool::approval::{
    AnyTool, ApprovalMode, ApprovalRule, NamedArgs, ToolArgs, async_rule, path_rule, sync_rule,
};
pub use crate::tool::arguments::ToolArguments;
pub use crate::tool::attempts::attempts;
pub use crate::tool::catalogue::{ToolsetOptions, toolset_of};
pub use crate::tool::client::{ClientCall, ClientTool, NoResult, ask_client};
pub use crate::tool::missing::{FoundTool, MissingTool};
pub use crate::tool::step::once;
pub use crate::tool_node::{narrowed, ruled_tool_of, tool_of, tool_parts};
pub use crate::{
    AgentContext, ApprovalRequest, BaseContext, BaseState, DeclaredTool, IntoToolOutput, ModelOptions, NamedTool, Tool,
    ToolCall, ToolCallId, ToolErrors, ToolOutput, ToolSearch, ToolSpec,
};
