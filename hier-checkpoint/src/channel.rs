//! The kinds of channels, and the table of a state's channels.

use std::borrow::Cow;

/// The kind of a channel. The kind determines if several tasks may write the channel in one superstep, and how long the
/// channel keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Keeps the last value. Accepts one writer per superstep. Two writers are a conflict, even if they write equal
    /// values.
    Last,
    /// Merges all writes of a superstep with a reducer. First come the writes of nodes, in the order of the nodes'
    /// names. The writes of Sends follow, in the order of the Sends.
    Reduced,
    /// Keeps the value for the next superstep only. Accepts one writer per superstep.
    Ephemeral,
    /// Keeps the last value, but no saver stores it. Accepts one writer per superstep.
    Untracked,
    /// Collects the values that are written in one superstep, and keeps them for the next superstep only.
    Topic,
    /// Collects the values that are written in all supersteps, and keeps them.
    TopicAccumulate,
}

impl Kind {
    /// Returns true if only one task may write the channel in a superstep.
    pub const fn single_writer(self) -> bool {
        matches!(self, Self::Last | Self::Ephemeral | Self::Untracked)
    }

    /// Returns true if the channel keeps a value for the next superstep only.
    pub const fn expires(self) -> bool {
        matches!(self, Self::Ephemeral | Self::Topic)
    }
}

/// The description of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSpec {
    /// The name of the channel. Defaults to the name of the field.
    pub name: Cow<'static, str>,
    /// The kind of the channel.
    pub kind: Kind,
    /// The name of the reducer as in `#[reducer(…)]`: `append`, or `with = path`. `None` if the channel has no reducer,
    /// or a reducer without a name.
    pub reducer: Option<Cow<'static, str>>,
    /// True if checkpoints store only the new writes of this channel, and not the whole value. Concerns only channels
    /// with a reducer. For the reducers `append`, `extend`, `by_id` and `messages`, checkpoints store only the new
    /// writes even if this field is false.
    pub delta: bool,
    /// True if the channel is secret. No stream or response shows the value of a secret channel. A run fails if its
    /// saver does not [protect values](crate::checkpoint::Capabilities::protects_values).
    pub secret: bool,
}

impl ChannelSpec {
    #[doc(hidden)]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name: Cow::Borrowed(name), kind, reducer: None, delta: false, secret: false }
    }

    /// Creates the description of a channel with a reducer. `#[derive(State)]` calls this function.
    #[doc(hidden)]
    pub const fn reduced(name: &'static str, reducer: &'static str, delta: bool) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Kind::Reduced,
            reducer: Some(Cow::Borrowed(reducer)),
            delta,
            secret: false,
        }
    }

    /// Marks the channel as secret. `#[derive(State)]` calls this method.
    #[doc(hidden)]
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Returns the name of the reducer that merges a write into the value, or [`LAST`] if a write replaces the value.
    #[doc(hidden)]
    pub fn rule(&self) -> &str {
        match (self.kind, self.reducer.as_deref()) {
            (Kind::Last | Kind::Ephemeral | Kind::Untracked, _) => LAST,
            (Kind::Topic | Kind::TopicAccumulate, _) => "append",
            (Kind::Reduced, Some("upsert")) => "by_id",
            (Kind::Reduced, reducer) => reducer.unwrap_or("with"),
        }
    }

    /// Decides how a channel applies a stored write. `rule` is the channel's [`rule`](Self::rule) at the time when the
    /// program stored the write. `overwrite` is true if the write is marked as an overwrite.
    ///
    /// * `Some(true)`: the write replaces the value, because the write is marked as an overwrite, or because `rule` is
    ///   [`LAST`] and the channel has another rule now.
    /// * `Some(false)`: the channel applies the write with its current rule, which is equal to `rule`.
    /// * `None`: the channel cannot apply the write, because `rule` names another reducer than the current one.
    #[doc(hidden)]
    pub fn replaces(&self, rule: &str, overwrite: bool) -> Option<bool> {
        let today = self.rule();
        let is_readable = overwrite || rule == today || rule == LAST;
        is_readable.then_some(overwrite || rule != today)
    }
}

/// The [`rule`](ChannelSpec::rule) of a channel whose writes replace its value.
#[doc(hidden)]
pub const LAST: &str = "last";

/// The channels of a type with `#[derive(State)]`. If the type has a `#[state(flatten)]` field, the channels of the
/// flattened state follow those of the other fields.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    own: &'static [ChannelSpec],
    flattened: Option<&'static Table>,
    /// The fields of the secret channels of `own`. A field is named differently from its channel if the channel is renamed.
    secret_fields: &'static [&'static str],
}

impl Table {
    #[doc(hidden)]
    pub const fn new(own: &'static [ChannelSpec], flattened: Option<&'static Table>) -> Self {
        Self { own, flattened, secret_fields: &[] }
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn hiding(self, secret_fields: &'static [&'static str]) -> Self {
        Self { secret_fields, ..self }
    }

    /// Returns the number of channels.
    pub const fn len(&self) -> usize {
        self.own.len()
            + match self.flattened {
                Some(table) => table.len(),
                None => 0,
            }
    }

    /// Returns true if there are no channels.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the channel with this index, or `None` if no channel has this index.
    pub fn get(&self, channel: usize) -> Option<&'static ChannelSpec> {
        match (self.own.get(channel), self.flattened) {
            (None, Some(table)) => table.get(channel - self.own.len()),
            (own, _) => own,
        }
    }

    /// Returns the channels, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &'static ChannelSpec> + use<> {
        let table = *self;
        (0..table.len()).filter_map(move |channel| table.get(channel))
    }

    /// Returns true if the table `other` contains the names of all channels of this table.
    #[doc(hidden)]
    pub const fn is_within(&self, other: &Table) -> bool {
        let mut at = 0;
        while at < self.own.len() {
            if let Cow::Borrowed(own) = self.own[at].name
                && !other.contains(own)
            {
                return false;
            }
            at += 1;
        }
        match self.flattened {
            Some(table) => table.is_within(other),
            None => true,
        }
    }

    /// Returns true if a channel has this name and only one task may write it in a superstep.
    #[doc(hidden)]
    pub const fn is_plain(&self, name: &str) -> bool {
        if let Some(channel) = self.position(name)
            && let Some(spec) = self.spec(channel)
        {
            return spec.kind.single_writer();
        }
        false
    }

    /// Returns the index of the channel with this name, or `None` if no channel has this name.
    #[doc(hidden)]
    pub const fn position(&self, name: &str) -> Option<usize> {
        let mut at = 0;
        while at < self.own.len() {
            if let Cow::Borrowed(own) = self.own[at].name
                && equal(own, name)
            {
                return Some(at);
            }
            at += 1;
        }
        match self.flattened {
            Some(table) => match table.position(name) {
                Some(channel) => Some(at + channel),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the channel with this index, or `None` if no channel has this index. Unlike [`get`](Self::get),
    /// constants can call this method.
    #[doc(hidden)]
    pub const fn spec(&self, channel: usize) -> Option<&'static ChannelSpec> {
        if channel < self.own.len() {
            return Some(&self.own[channel]);
        }
        match self.flattened {
            Some(table) => table.spec(channel - self.own.len()),
            None => None,
        }
    }

    /// Returns true if at least one channel is secret.
    #[doc(hidden)]
    pub const fn has_secret(&self) -> bool {
        match self.flattened {
            Some(table) => !self.secret_fields.is_empty() || table.has_secret(),
            None => !self.secret_fields.is_empty(),
        }
    }

    /// Returns true if the channel of this field is secret. Pass the name of the field, even if the channel is renamed.
    #[doc(hidden)]
    pub const fn hides(&self, field: &str) -> bool {
        let mut at = 0;
        while at < self.secret_fields.len() {
            if equal(self.secret_fields[at], field) {
                return true;
            }
            at += 1;
        }
        match self.flattened {
            Some(table) => table.hides(field),
            None => false,
        }
    }

    /// Returns true if a channel has this name. The derive macro calls this method to reject a name that a flattened
    /// state also has.
    pub const fn contains(&self, name: &str) -> bool {
        self.position(name).is_some()
    }
}

/// Returns true if two strings are equal. Unlike `==`, constants can call this function.
#[doc(hidden)]
pub const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}
