//! Compiled graphs: the plan, the code of the nodes with their options, and a task with its view of the run.

/// Implements `Clone` field by field. A derived `Clone` would require that the type parameters implement it, too.
macro_rules! clone_fields {
    ([$($generics:tt)*] $type:ty { $($field:ident),* $(,)? }) => {
        impl<$($generics)*> Clone for $type {
            fn clone(&self) -> Self {
                Self { $($field: Clone::clone(&self.$field)),* }
            }
        }
    };
}

mod abandon;
mod answers;
mod apart;
mod ask;
mod asking;
mod background;
mod cache;
mod cache_key;
mod child;
mod command;
mod decode;
mod done;
mod erased;
mod facts;
mod graph;
mod graph_facts;
pub(crate) mod heartbeat;
mod hooks;
mod input;
mod narrowed;
mod node;
mod numbers;
mod options;
mod plan;
mod reads;
mod repeat;
mod routing;
mod run;
mod sends;
mod signals;
mod snapshot;
mod step_home;
mod step_log;
mod steps;
mod task;
mod task_resume;
mod timers;

pub use ask::{Ask, TypedInterrupt};
pub use asking::{Interrupt, NeedsAwait};
pub use background::{BackgroundEnd, BackgroundRuns};
pub use child::Child;
pub use command::{Command, END, End, IntoTarget, JumpTo, Output, START, Start, Target};
pub use erased::{DynInput, DynUpdates};
pub use facts::{AskedFacts, ChannelFacts, Exits, GraphFacts, InnerFacts, JoinFacts, NodeFacts, SecretChannel};
pub use hooks::{DetachedEnd, DetachedRuns, Hooks};
pub use input::{GraphOutput, Input};
pub use node::{NodeDef, NodeResult};
pub use options::{Cache, Checkpoints, Retry};
pub use reads::{InputKey, TellsApart};
pub use routing::Routing;
pub use run::{Run, Scope};
pub use sends::Payload;
pub use signals::SignalWait;
pub use snapshot::{DynSnapshot, DynTask, SnapshotOf, SnapshotTask, StateSnapshot, TaskSnapshot};
pub use task::{Failure, Task};

pub(crate) use answers::{CommandAnswers, JsonAnswers};
pub(crate) use apart::{LEVELS, apart};
pub(crate) use background::{Attachments, BackgroundWork};
pub(crate) use cache::{CacheKey, NodeCache};
pub use child::{Attached, ContextFn, Shares, Subgraph};
pub(crate) use command::{Gotos, Jump, ParentCommand};
pub(crate) use decode::Decoder;
pub(crate) use done::{By, Destinations, TaskOutcome};
pub use erased::{ErasedGraph, InnerGraph};
pub use graph::RouteFn;
pub use graph::{Program, SpecRef};
pub(crate) use heartbeat::NodeHeartbeat;
pub use hooks::{Enter, Prepare};
pub(crate) use node::Body;
pub use node::body;
pub(crate) use plan::{AllowedTargets, Exit, Join, PULLED, Plan, TaskKey};
pub use repeat::Repeat;
pub(crate) use run::{CacheTaint, GraphContext, RunShared, random_node};
pub(crate) use sends::{Outbox, SendArg, Sends};
pub(crate) use step_home::{StepHome, unsaved};
pub use step_log::hash;
pub(crate) use step_log::{STEP, StepKey, StepLog, StepLogs};
pub(crate) use task_resume::{TaskAnswer, TaskResume, UnaddressedAnswer};
