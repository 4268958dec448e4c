//! Graphs. A program declares a graph with `graph!` or builds it with [`GraphBuilder`], and compiles it to a
//! [`CompiledGraph`].

pub(crate) mod ask;
mod assemble;
mod attach;
mod bound;
mod builder;
mod compiled;
mod detached;
mod due;
mod dynamic;
mod edge_end;
mod facts;
#[doc(hidden)]
pub mod flow;
#[doc(hidden)]
pub mod flow_facts;
pub mod handler;
mod inbox;
mod input;
mod on_entry;
mod request;
#[doc(hidden)]
pub mod site;
mod task;
mod thread;

pub use attach::FitsContext;
pub use bound::BoundGraph;
pub use builder::{GraphBuilder, IntoNode};
pub use compiled::{Compiled, CompiledGraph, Graph, Parts};
#[doc(hidden)]
pub use detached::ContinueDetached;
pub use due::{Driven, DueSweeper, SweepHandle};
pub use dynamic::{
    DynCommand, DynEventSink, DynGraph, DynGraphInfo, DynInput, DynRun, DynSnapshot, DynTask, DynUpdates, Erased,
    GraphSchemas, QuestionSchemas, RunContext, Runner, interrupts,
};
pub use edge_end::EdgeEnd;
pub use facts::StoredGraph;
#[doc(hidden)]
pub use flow::GraphFlow;
pub use handler::{BoxFuture, Sent, SubgraphArgs};
pub use inbox::{Signal, ThreadMessage};
#[doc(hidden)]
pub use input::{DeclaredInput, OwnedView};
pub use input::{FullState, GraphInput};
pub use request::{GraphRequest, Invoke, NeedsContext, ReadyContext, RequestContext, Streaming, WithContext};
#[doc(hidden)]
pub use request::{RequestKind, StreamKind};

#[doc(hidden)]
pub use crate::engine::program::Hooks;
pub use crate::engine::program::SecretChannel;
#[doc(hidden)]
pub use crate::engine::program::{
    AskedFacts, ChannelFacts, Exits, GraphFacts, InnerFacts, InputKey, JoinFacts, NodeFacts, TellsApart,
};
pub use crate::engine::program::{
    Cache, Checkpoints, Child, Command, END, End, Failure, GraphOutput, Input, IntoTarget, JumpTo, NodeDef, NodeResult,
    Output, Payload, Retry, Routing, START, Start, Target, Task,
};
#[doc(hidden)]
pub use crate::state::Reads;
