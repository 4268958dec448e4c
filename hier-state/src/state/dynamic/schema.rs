//! The channels of dynamic states.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{DynState, DynUpdate};
use crate::channel::{ChannelSpec, Kind};
use crate::error::NodeError;
use crate::reducer::ReduceError;
use crate::reducer::json::{Builtin, Reducer};
use crate::state::Steps;

/// The channels of a [`DynState`].
///
/// ```
/// use hier_core::prelude::*;
/// use hier_core::state::Schema;
/// use hier_core::state::Builtin;
///
/// let schema = Schema::new().last("question").reduced("log", Builtin::Append).ephemeral("hint");
/// # let _ = schema;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Schema {
    pub(super) channels: Vec<DynChannel>,
}

#[derive(Clone)]
pub(super) struct DynChannel {
    /// Shared with the writes that are made with this schema.
    pub(super) spec: Arc<ChannelSpec>,
    pub(super) reducer: Option<Reducer>,
    pub(super) initial: Option<Value>,
}

impl fmt::Debug for DynChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl Schema {
    /// Creates a schema without channels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a channel that keeps the last value. The channel has no value until a node or an input writes it. The
    /// channel allows one writer per superstep.
    pub fn last(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Last, None)
    }

    /// Adds a channel with a built-in reducer. The variants of [`Builtin`] describe the initial values.
    pub fn reduced(self, name: impl Into<String>, reducer: Builtin) -> Self {
        let named = Some(Cow::Borrowed(reducer.name()));
        self.add(name, Kind::Reduced, named, Some(reducer.reducer()), Some(reducer.initial()))
    }

    /// Adds a channel with a custom reducer and an initial value.
    pub fn reduced_with(
        self,
        name: impl Into<String>,
        initial: Value,
        reducer: impl Fn(&mut Value, Value) -> Result<(), ReduceError> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, Kind::Reduced, None, Some(Arc::new(reducer)), Some(initial))
    }

    /// Adds a channel whose value is visible only in the superstep after the write. The channel allows one writer per
    /// superstep.
    pub fn ephemeral(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Ephemeral, None)
    }

    /// Adds a channel that no saver stores. The channel allows one writer per superstep.
    pub fn untracked(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Untracked, None)
    }

    /// Adds a topic: a list of the items that were written in the last superstep. If `accumulate` is true, the list
    /// contains the items of all supersteps. A write is an item or a list of items.
    pub fn topic(self, name: impl Into<String>, accumulate: bool) -> Self {
        let kind = if accumulate { Kind::TopicAccumulate } else { Kind::Topic };
        // An empty topic has no value, as in LangGraph.
        self.with(name, kind, Some(Builtin::Append.reducer()))
    }

    fn with(self, name: impl Into<String>, kind: Kind, reducer: Option<Reducer>) -> Self {
        self.add(name, kind, None, reducer, None)
    }

    fn add(
        mut self,
        name: impl Into<String>,
        kind: Kind,
        named: Option<Cow<'static, str>>,
        reducer: Option<Reducer>,
        initial: Option<Value>,
    ) -> Self {
        let spec = ChannelSpec { name: Cow::Owned(name.into()), kind, reducer: named, delta: false, secret: false };
        self.channels.push(DynChannel { spec: Arc::new(spec), reducer, initial });
        self
    }

    /// Compares a channel of another schema with the channel at this place. Returns the difference in words, or `None`
    /// if both are equal. Custom reducers count as equal.
    pub(super) fn difference(&self, place: usize, other: &ChannelSpec) -> Option<String> {
        let (name, own) = (&*other.name, self.channels.get(place).map(|channel| &*channel.spec));
        match own.filter(|own| own.name == name) {
            Some(own) if own == other => None,
            Some(own) => Some(format!("channel `{name}` {} there, and {} here", in_words(other), in_words(own))),
            None if self.find(name).is_some() => Some(format!("channel `{name}` has another place in the schema here")),
            None => {
                let tail = hier_spec::did_you_mean(name, self.channels().map(|spec| &*spec.name));
                Some(format!("there is no channel `{name}` here{tail}"))
            }
        }
    }

    /// Returns true if both schemas have the same channels, and each of these has the same reducer. Custom reducers have no
    /// names, so only clones of one schema share them.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let is_same = |own: &DynChannel, other: &DynChannel| {
            own.spec == other.spec
                && match (&own.reducer, &other.reducer) {
                    (Some(own_reducer), Some(reducer)) if own.spec.reducer.is_none() => {
                        Arc::ptr_eq(own_reducer, reducer)
                    }
                    _ => true,
                }
        };
        let pairs = || self.channels.iter().zip(&other.channels);
        self.channels.len() == other.channels.len() && pairs().all(|(own, other)| is_same(own, other))
    }

    /// Returns the channels in the order of their indices.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelSpec> + Clone {
        self.channels.iter().map(|channel| &*channel.spec)
    }

    /// Returns the index of a channel, or `None` if no channel has this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|channel| channel.spec.name == name)
    }

    /// Creates a state in which each channel has its initial value.
    pub fn initial(self: &Arc<Self>) -> DynState {
        let values = self.channels.iter().map(|channel| channel.initial.clone()).collect();
        DynState { schema: self.clone(), values, steps: Steps::default() }
    }

    /// Creates an update from a JSON object whose keys are the names of channels. If `object` is null, the update is
    /// empty. A null for a channel writes null.
    ///
    /// # Errors
    ///
    /// Fails for an unknown channel, and for other JSON than an object or null.
    pub fn update(&self, object: Value) -> Result<DynUpdate, NodeError> {
        let object = match object {
            Value::Object(object) => object,
            Value::Null => return Ok(DynUpdate::default()),
            other => {
                return Err(NodeError::permanent(format!("an update must be an object of channel names, not {other}")));
            }
        };
        object.into_iter().try_fold(DynUpdate::default(), |update, (name, value)| update.write(self, &name, value))
    }
}

/// Describes how a channel merges its writes, for error messages.
fn in_words(spec: &ChannelSpec) -> String {
    match (spec.kind, spec.reducer.as_deref()) {
        (Kind::Reduced, Some(reducer)) => return format!("has the reducer `{reducer}`"),
        (Kind::Reduced, None) => "has a custom reducer",
        (Kind::Last, _) => "keeps the last value",
        (Kind::Ephemeral, _) => "is ephemeral",
        (Kind::Untracked, _) => "is untracked",
        (Kind::Topic, _) => "is a topic that does not accumulate",
        (Kind::TopicAccumulate, _) => "is a topic that accumulates",
    }
    .to_owned()
}
