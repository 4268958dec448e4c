//! Graphs: what `graph!` declares, what a builder builds, and what both compile to.

mod assemble;
mod attach;
mod builder;
mod command;
mod compiled;
pub mod draw;
pub mod handler;
mod hooks;
mod input;
mod options;
#[doc(hidden)]
pub mod site;
mod task;
mod thread;

pub(crate) use assemble::Draft;
pub(crate) use attach::{Attached, ContextFn};
pub use attach::{Child, FitsContext};
pub use builder::{GraphBuilder, IntoNode, Place};
pub use command::{Command, END, End, IntoTarget, JumpTo, Output, Payload, START, Start, Target};
pub use compiled::{Compiled, CompiledGraph, Graph, Parts};
pub use handler::{BoxFuture, Failure, NodeResult, Sent, SubgraphArgs};
pub use input::{GraphInput, GraphOutput, Input, Whole};
pub use options::{Cache, Checkpoints, NodeDef, Retry};
pub use task::Task;

pub(crate) use command::{Answers, Jump, Orders, Parcel, ParentCommand, StoredPayload};
pub(crate) use compiled::{Attachments, Inner, RouteFn, SpecRef};
pub(crate) use hooks::Hooks;
pub(crate) use options::{Body, body};

use std::sync::Arc;

/// Where a route leads: filled by the generated `match`, `if` and `for`, and by the closures of a builder.
#[derive(Default)]
pub struct Routing {
    pub(crate) go: smallvec::SmallVec<[usize; 4]>,
    pub(crate) sends: Vec<(usize, Parcel)>,
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sends: Vec<_> = self.sends.iter().map(|(node, _)| node).collect();
        f.debug_struct("Routing").field("go", &self.go).field("sends", &sends).finish()
    }
}

impl Routing {
    /// Runs the node with this index in the spec.
    pub fn go(&mut self, node: usize) {
        self.go.push(node);
    }

    /// Starts a task of the node with this index in the spec, with this payload.
    pub fn send(&mut self, node: usize, payload: impl Payload) {
        self.sends.push((node, Arc::new(payload)));
    }
}
