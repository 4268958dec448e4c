//! Everything a program needs: `use hier_core::prelude::*;`

#[doc = include_str!("prelude/state.md")]
pub use hier_macros::State;
#[doc = include_str!("prelude/view.md")]
pub use hier_macros::View;
#[doc = include_str!("prelude/graph.md")]
pub use hier_macros::graph;
// The derive of `JsonSchema` names its crate by this name.
pub use schemars::{self, JsonSchema};
pub use serde::{Deserialize, Serialize};
pub use tokio_util::sync::CancellationToken;

pub use crate::checkpoint::{MemorySaver, WhenRunning};
pub use crate::graph::{
    Cache, Checkpoints, Command, CompiledGraph, END, Failure, Graph, GraphBuilder, NodeDef, Payload, Retry, START,
    Sent, Signal, Target, Task,
};
pub use crate::message::{Message, Messages, ToolCall};
pub use crate::reducer::Identified;
pub use crate::state::{
    DynState, DynUpdate, IsLastStep, Overwrite, RemainingSteps, Schema, State, Update, Values, Write, wants_tools,
};
pub use crate::{
    Config, Durability, Event, EventStream, NodeError, Outcome, Result, Run, RunControl, RunError, StateUpdate,
    StreamMode,
};
