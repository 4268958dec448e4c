//! Parts of the engine that `hier-agents` uses. Not public API, and exempt from semver.

pub use crate::engine::program::{
    Attached, BackgroundEnd, BackgroundRuns, ContextFn, DetachedEnd, DetachedRuns, Enter, ErasedGraph, Hooks,
    InnerGraph, Prepare, Program, Repeat, RouteFn, Scope, Shares, SpecRef, Subgraph, body, hash,
};
pub use crate::engine::{BackgroundStart, Saver};
pub use crate::graph::handler;
pub use crate::graph::site::Site;
