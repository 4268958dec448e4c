//! Everything a program needs: `use hier_core::prelude::*;`

#[doc = include_str!("prelude/state.md")]
pub use hier_macros::State;
#[doc = include_str!("prelude/view.md")]
pub use hier_macros::View;
#[doc = include_str!("prelude/graph.md")]
pub use hier_macros::graph;
#[doc = include_str!("prelude/tool.md")]
pub use hier_macros::tool;
// The derive of `JsonSchema` names its crate by this name.
pub use schemars::{self, JsonSchema};
pub use serde::{Deserialize, Serialize};
pub use tokio_util::sync::CancellationToken;

pub use crate::agent::Compact;
pub use crate::agent::layer::{Fallback, Inherited, Layer, Limit, Redact};
pub use crate::agent::tools;
pub use crate::agent::{
    AgentEnd, Approval, ApprovalRequest, BaseContext, BaseState, BaseStateSetters, Effort, Message, Messages,
    ModelOptions, NamedTool, RunModel, ToolCall, ToolCallId, ToolErrors,
};
pub use crate::checkpoint::{MemorySaver, WhenRunning};
pub use crate::graph::{
    Cache, Checkpoints, Command, CompiledGraph, END, Failure, Graph, GraphBuilder, NodeDef, Payload, Retry, START,
    Sent, Signal, Target, Task,
};
pub use crate::reducer::Identified;
pub use crate::state::{
    DynState, DynUpdate, IsLastStep, Overwrite, RemainingSteps, Schema, State, Update, Values, Write, wants_tools,
};
pub use crate::{
    Config, Durability, Event, EventStream, NodeError, Outcome, Result, Run, RunControl, RunError, StateUpdate,
    StreamMode,
};
