//! Everything a program needs: `use hier_core::prelude::*;`

pub use hier_macros::{State, View, graph};
pub use serde::{Deserialize, Serialize};

pub use crate::agent::{Message, Messages, ToolCall};
pub use crate::graph::{
    Cache, Command, CompiledGraph, END, Failure, Graph, GraphBuilder, NodeDef, Payload, Retry, START, Sent, Target,
    Task,
};
pub use crate::reducer::Identified;
pub use crate::state::{
    DynState, DynUpdate, IsLastStep, Overwrite, RemainingSteps, Schema, State, Update, Values, Write,
};
pub use crate::{
    CancellationToken, Config, Event, EventStream, NodeError, Outcome, Result, Run, RunControl, RunError, StreamMode,
};
