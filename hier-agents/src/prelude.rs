//! The common imports of programs with agents: `use hier_agents::prelude::*;`

pub use hier_core::prelude::*;
#[doc = include_str!("prelude/tool.md")]
pub use hier_macros::tool;

pub use crate::layer::{Fallback, Inherited, Layer, Limit, Redact};
pub use crate::tools;
pub use crate::{
    AgentEnd, AgentOutcome, Approval, ApprovalRequest, BaseContext, BaseState, BaseStateSetters, Compact, Effort,
    ModelOptions, NamedTool, RunModel, ToolCallId, ToolErrors,
};
