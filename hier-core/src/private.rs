//! What generated code refers to. Not for hands.

pub use std::borrow::Cow;
pub use std::sync::Arc;

pub use hier_spec::{
    ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, Nested, NodeSpec, Source, Target as SpecTarget, Text,
};
pub use serde_json::{self, Error as JsonError, Value};

pub use crate::NodeError;
pub use crate::channel::{ChannelSpec, Kind, Table};
pub use crate::graph::handler::{Extract, IntoOutput, Nothing};
pub use crate::graph::site::{Facts, Site, choose, deepest, needs_reducer, writable};
pub use crate::graph::{
    Cache, FitsContext, Graph, GraphInput, GraphOutput, NodeDef, NodeResult, Output, Parts, Retry, Routing, Target,
    Task, Whole,
};
pub use crate::reducer::{ReduceError, builtin, reduce};
pub use crate::state::derived::{
    BoxedWrite, Json, boxed, copy, json, lift, name, reset, set, unboxed, unboxed_value, write_field,
};
pub use crate::state::nibbles::*;
pub use crate::state::{
    Agree, Carried, Channel, ChannelWrite, Contains, Empty, Fork, I, IsLastStep, Leaf, ManagedValue, O, Parameter,
    Persist, Plain, Reduced, RemainingSteps, SharesWith, State, Steps, Update, Values, WritableChannel, Write, Writes,
};
