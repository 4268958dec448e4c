//! The names that most programs use: `use hier_core::prelude::*;`
//!
//! A name is in the prelude if most programs write it and if a glob import of it is safe. It is safe if it hides nothing that the
//! standard library imports by itself, and if `axum`, `anyhow` and `tokio` export no such name. The prelude has therefore no `Result` and
//! no `Event`: use [`hier_core::Result`](crate::Result) and [`hier_core::Event`](crate::Event). `State` and `Question` are the derive
//! macros alone.
//!
//! Traits are imported without their names, so that their methods can be called. To write a bound or an implementation, import the trait
//! from its module. Other types come from their modules too: options of nodes and graphs that are built at run time from
//! [`graph`](mod@crate::graph), channels and dynamic states from [`state`](crate::state).

#[doc = include_str!("prelude/question.md")]
pub use hier_macros::Question;
#[doc = include_str!("prelude/state.md")]
pub use hier_macros::State;
#[doc = include_str!("prelude/view.md")]
pub use hier_macros::View;
#[doc = include_str!("prelude/graph.md")]
pub use hier_macros::graph;
// The derive of `JsonSchema` names its crate by this name.
pub use schemars::{self, JsonSchema};
pub use serde::{Deserialize, Serialize};

pub use crate::checkpoint::MemorySaver;
pub use crate::graph::{Command, END, Graph as _, START, Sent};
pub use crate::message::{Message, Messages};
pub use crate::reducer::Identified as _;
pub use crate::state::{State as _, Update as _, Values as _};
pub use crate::{Ask, Config, NodeError, Outcome, QuestionSet as _, Run, RunError, StreamMode};
