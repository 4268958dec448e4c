//! What is run: the plan of a graph, the code of its nodes with their options, and a task, with what a node sees of its run.

mod apart;
mod cache;
mod child;
mod command;
mod done;
pub(crate) mod heartbeat;
mod hooks;
mod inner;
mod input;
mod node;
mod parcel;
mod plan;
mod routing;
mod run;
mod task;

pub use child::Child;
pub use command::{Command, END, End, IntoTarget, JumpTo, Output, START, Start, Target};
pub use hooks::Hooks;
pub use input::{GraphOutput, Input};
pub use node::{Cache, Checkpoints, NodeDef, NodeResult, Retry};
pub use parcel::Payload;
pub use routing::Routing;
pub use run::Run;
pub use task::{Failure, Task};

pub(crate) use apart::{LEVELS, apart};
pub(crate) use cache::{CacheKey, NodeCache};
pub(crate) use child::{Attached, ContextFn, Shares, Subgraph};
pub(crate) use command::{Answers, Jump, Orders, ParentCommand};
pub(crate) use done::{By, Done, Leads};
pub(crate) use heartbeat::Heartbeat;
pub(crate) use inner::{Attachments, Inner, RouteFn, SpecRef};
pub(crate) use node::{Body, body};
pub(crate) use parcel::{Parcel, Parcels};
pub(crate) use plan::{Allowed, Exit, Join, PULLED, Plan, TaskKey};
pub(crate) use run::{Inbox, Personal, Shared, random_node};
