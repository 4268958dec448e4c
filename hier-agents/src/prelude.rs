//! The names that most programs with agents need: `use hier_agents::prelude::*;`
//!
//! The prelude includes the names of [`hier_core::prelude`](mod@hier_core::prelude). It does not include layers, which
//! are in [`layer`](crate::layer).

pub use crate::TextFree;
pub use hier_core::prelude::*;
#[doc = include_str!("prelude/tool.md")]
pub use hier_macros::tool;

pub use crate::tools;
pub use crate::{
    AgentEnd, AgentOutcome as _, Approval, BaseContext, BaseState, BaseStateSetters as _, MessagesState,
    NamedTool as _, RunModel as _,
};
