//! The graphs of agents, which ask a model what to do.
//!
//! An agent is an ordinary graph. This module creates the code of its nodes; [`hier_spec::agent`] defines its shape.

mod agent;
mod answer;
mod background;
mod background_calls;
mod background_set;
mod background_specs;
mod built_in_tools;
mod detached;
mod entry;
mod nodes;
pub(crate) mod prompt;
mod repeats;
mod request;
mod route;
mod searching;
mod subagent_tool;

pub(super) use agent::{AgentDef, PromptSource, Todo};
pub use agent::{DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_REPEATS, IntoPrompt};
#[doc(hidden)]
pub use answer::AnswerChannel;
pub(super) use answer::{DEFAULT_ATTEMPTS, TypedAnswer};
pub(super) use background_set::{BackgroundRunner, BackgroundSet, SubagentEnd};
pub(super) use nodes::call_of;
#[doc(hidden)]
pub use subagent_tool::ArgsSpec;
pub(crate) use subagent_tool::SubagentTool;
