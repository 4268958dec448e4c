//! The names that most programs use: `use hier_core::prelude::*;`
//!
//! The prelude only has names that a glob import can bring in safely: none of them is in the standard prelude or
//! exported by `axum`, `anyhow` or `tokio`. It therefore has no `Result` and no `Event`: use
//! [`hier_core::Result`](crate::Result) and [`hier_core::Event`](crate::Event). `State` and `Question` are only the
//! derive macros.
//!
//! Traits are imported as `_`, for their methods. To name a trait in a bound or an implementation, import it from its
//! module. Options of nodes and graphs that are built at run time are in [`graph`](mod@crate::graph), channels and
//! dynamic states in [`state`](crate::state).

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
