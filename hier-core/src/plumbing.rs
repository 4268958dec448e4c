//! Items that macro-generated code uses. Not public API, and exempt from semver.

pub use std::borrow::Cow;
pub use std::sync::Arc;

pub use ::{core, std};
pub use hier_macros::ToolItems;
pub use hier_spec::agent::AgentKind;
pub use hier_spec::flow::{FlowSpec, NodeChannels, NodeFlow};
pub use hier_spec::trust::{GraphTrust, ToolTrust, TrustLabels, TrustSource, leak_message, leaks};
pub use hier_spec::{
    ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, NestedSpec, NodeSpec, Source, Target as SpecTarget, Text, words,
};
pub use schemars::{Schema, SchemaGenerator};
pub use serde_json::{self, Value};

pub use crate::Question as StoredQuestion;
pub use crate::channel::{ChannelSpec, Kind, Table};
pub use crate::checkpoint::CodecError;
pub use crate::checkpoint::delta::Rule;
pub use crate::graph::ask::{ArgumentQuestions, MayAsk};
pub use crate::graph::flow_facts::{FlowFacts, NoClaim, ViewClaim};
pub use crate::graph::handler::{BoxFuture, Extract, IntoOutput, NoPayload};
pub use crate::graph::site::{NodeInfo, Site, choose, deepest, inbox, needs_reducer, writable};
pub use crate::graph::{
    Cache, Checkpoints, FitsContext, FullState, Graph, GraphFlow, GraphInput, GraphOutput, Hooks, Input, NodeDef,
    NodeResult, Output, OwnedView, Parts, Reads, Retry, Routing, Target, Task,
};
pub use crate::message::Messages;
pub use crate::question::{check_asked, check_declared, check_distinct, check_hook, question_data};
pub use crate::reducer::{IntoTexts, IntoValue, IntoWrite, ReduceError, builtin, reduce};
pub use crate::state::checked::{AnyParameter, Checked, Known, Late, Mention};
pub use crate::state::derived::{
    BoxedWrite, as_messages, boxed, channel_type, cloned, copy, fingerprint, from_messages, known, lift, load,
    load_write, merge_with, name, no_channel, reset, set, state_type, stored, unboxed, unboxed_value, untracked_type,
};
pub use crate::state::fields::{Field, Fields, behind};
pub use crate::state::merge::{MergeOf, merge_stored};
pub use crate::state::nibbles::*;
pub use crate::state::owned::{replace_field, write_field, write_optional, writes_of};
pub use crate::state::schema::SchemaOf;
pub use crate::state::sealed::Sealed;
pub use crate::state::secret::{
    BorrowedFrom, DebugOf, Hidden, MayShow, Secret, Shown, ShownChannels, Shows, load_secret, reduce_secret,
};
pub use crate::state::{
    Agree, Carried, Channel, ChannelWrite, Contains, Conversation, Empty, Fork, HasInitial, I, Internal, IntoUpdate,
    IsLastStep, Leaf, ManagedType, ManagedValue, Migration, O, Parameter, Persist, Plain, Reduced, RemainingSteps,
    SharesWith, State, Steps, Stored, StoredValues, Unmanaged, Update, Values, WritableChannel, Write, WriteClaim,
    Writes,
};
pub use crate::{DeclaredQuestion, NodeError, OpenQuestion, QuestionError, QuestionFacts, QuestionSet, QuestionType};
