//! Graphs: what `graph!` declares, what a builder builds, and what both compile to.

mod assemble;
mod attach;
mod bound;
mod builder;
mod compiled;
mod due;
mod dynamic;
pub mod handler;
mod input;
mod mail;
mod on_entry;
mod request;
#[doc(hidden)]
pub mod site;
mod task;
mod thread;

pub use attach::FitsContext;
pub use bound::BoundGraph;
pub use builder::{GraphBuilder, IntoNode, Place};
pub use compiled::{Compiled, CompiledGraph, Graph, Parts};
pub use due::{Driven, DueSweeper, SweepHandle};
pub use dynamic::{
    DynCommand, DynGraph, DynInput, DynRun, DynSnapshot, DynTask, DynTell, DynUpdates, Erased, GraphSchemas,
    RunContext, Runner, interrupts,
};
pub use handler::{BoxFuture, Sent, SubgraphArgs};
pub use input::{GraphInput, Whole};
pub use mail::{Mail, Signal};
pub use request::{GraphRequest, Invoke, NeedsContext, ReadyContext, RequestContext, Streaming, WithContext};
#[doc(hidden)]
pub use request::{RequestKind, StreamKind};

#[doc(hidden)]
pub use crate::engine::program::Hooks;
pub use crate::engine::program::{
    Cache, Checkpoints, Child, Command, END, End, Failure, GraphOutput, Input, IntoTarget, JumpTo, NodeDef, NodeResult,
    Output, Payload, Retry, Routing, START, Start, Target, Task, TellsApart,
};
#[doc(hidden)]
pub use crate::engine::program::{InputKey, Reads};
