//! The names that most programs use: `use hier_core::prelude::*;`
//!
//! A glob import of the prelude is safe: none of its names is in the standard prelude or exported by `axum`, `anyhow`
//! or `tokio`. For this reason, the prelude has no `Result` and no `Event`. Use [`hier_core::Result`](crate::Result)
//! and [`hier_core::Event`](crate::Event) instead. The names `State` and `Question` in the prelude are derive macros.
//!
//! The prelude imports traits as `_`, so that you can call their methods. To name a trait in a bound or an
//! implementation, import it from its module. The module [`graph`](mod@crate::graph) has the options of nodes and the
//! builder of graphs at run time. The module [`state`](crate::state) has channels and dynamic states.

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
