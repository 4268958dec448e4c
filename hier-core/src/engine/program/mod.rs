//! What is run: the plan of a graph, the code of its nodes with their options, and a task, with what a node sees of its run.

mod apart;
mod asking;
mod cache;
mod child;
mod command;
mod done;
mod graph;
pub(crate) mod heartbeat;
mod hooks;
mod input;
mod narrowed;
mod node;
mod plan;
mod routing;
mod run;
mod sends;
mod steps;
mod task;

pub use asking::Interrupt;
pub use cache::{InputKey, Reads, TellsApart};
pub use child::Child;
pub use command::{Command, END, End, IntoTarget, JumpTo, Output, START, Start, Target};
pub use hooks::Hooks;
pub use input::{GraphOutput, Input};
pub use node::{Cache, Checkpoints, NodeDef, NodeResult, Retry};
pub use routing::Routing;
pub use run::Run;
pub use sends::Payload;
pub use task::{Failure, Task};

pub(crate) use apart::{LEVELS, apart};
pub(crate) use cache::{CacheKey, NodeCache};
pub(crate) use child::{Attached, ContextFn, Shares, Subgraph};
pub(crate) use command::{Answers, Gotos, Jump, ParentCommand};
pub(crate) use done::{By, Destinations, Done};
pub(crate) use graph::{Attachments, Program, RouteFn, SpecRef};
pub(crate) use heartbeat::Heartbeat;
pub(crate) use hooks::{Enter, Scope};
pub(crate) use node::{Body, body};
pub(crate) use plan::{Allowed, Exit, Join, PULLED, Plan, TaskKey};
pub(crate) use run::{Anyone, Inbox, Personal, Shared, random_node};
pub(crate) use sends::{Outbox, SendArg, Sends};
pub(crate) use steps::{STEP, StepHome, StepKey, StepLog, StepLogs, hash};
