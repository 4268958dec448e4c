//! Values that write channels: updates, and views that own their fields.

use hier_spec::flow::ChannelSet;

use super::{Contains, Update, Values, WritableChannel, Writes};

/// A value that writes to channels of `S`: an update, or a view that owns its fields (`#[derive(View)]`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not write channels of `{S}`",
    label = "not an update of `{S}`",
    note = "give an update (`{S}::update()…`), or a `#[derive(View)] #[view(of = {S})]` struct that owns its fields"
)]
pub trait IntoUpdate<S: Values> {
    /// The channels that the values of this type write, in every case or in some cases. Defaults to
    /// [`WriteClaim::UNKNOWN`].
    const WRITES: WriteClaim = WriteClaim::UNKNOWN;

    /// Adds the writes of this value to `writes`.
    fn write_into(self, writes: &mut Writes<S>);
}

#[diagnostic::do_not_recommend]
impl<S: Values, U: Update<State = S>> IntoUpdate<S> for U {
    fn write_into(self, writes: &mut Writes<S>) {
        self.into_writes().into_iter().for_each(|write| writes.set(write));
    }
}

/// Returns the writes of an update or a view as a list.
pub fn writes_of<S: Values>(update: impl IntoUpdate<S>) -> Writes<S> {
    let mut writes = Writes::new();
    update.write_into(&mut writes);
    writes
}

/// The channels that a type writes, as far as the type alone shows them.
#[derive(Clone, Copy, Debug)]
pub struct WriteClaim {
    /// The channels that every value writes.
    always: ChannelSet,
    /// The channels that values may write.
    all: ChannelSet,
    is_known: bool,
}

impl WriteClaim {
    /// The claim of a type that may write any channel.
    pub const UNKNOWN: Self = Self { is_known: false, ..Self::NOTHING };
    /// The claim of a type that writes nothing.
    pub const NOTHING: Self = Self { always: ChannelSet::EMPTY, all: ChannelSet::EMPTY, is_known: true };

    /// Creates the claim of a type whose values all write the channels `always`, and may also write the channels
    /// `sometimes`. If one of the arguments is `None`, returns [`Self::UNKNOWN`].
    pub const fn of(always: Option<ChannelSet>, sometimes: Option<ChannelSet>) -> Self {
        match (always, sometimes) {
            (Some(always), Some(sometimes)) => Self { always, all: always.union(sometimes), is_known: true },
            _ => Self::UNKNOWN,
        }
    }

    /// Returns the claim of `Option<T>`, where `self` is the claim of `T`. An `Option<T>` may write the channels of
    /// `T`, but does not always write them.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { always: ChannelSet::EMPTY, ..self }
    }

    /// Returns true if [`all`](Self::all) contains all channels that the type may write. If false, the type may write
    /// any channel.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the channels that every value of the type writes. A channel that only some values write is not in this
    /// set.
    pub const fn always(&self) -> ChannelSet {
        self.always
    }

    /// Returns the channels that at least one value of the type writes, including those in [`always`](Self::always).
    /// Empty if the channels are not known.
    pub const fn all(&self) -> ChannelSet {
        self.all
    }
}

/// Writes the value of a view's field to the channel `key`, by adding a write to `writes`. If the channel has no
/// reducer, the new write replaces an earlier write to the channel.
pub fn write_field<Outer, Part, K>(writes: &mut Writes<Outer>, key: &K, value: K::Value)
where
    Outer: Contains<Part>,
    Part: Contains<K::State>,
    K: WritableChannel,
{
    writes.set(Outer::lift(Part::lift(key.write_of(value))));
}

/// Writes the value of a view's field to the channel `key`, like [`write_field`]. Does nothing if `value` is `None`.
pub fn write_optional<Outer, Part, K>(writes: &mut Writes<Outer>, key: &K, value: Option<K::Value>)
where
    Outer: Contains<Part>,
    Part: Contains<K::State>,
    K: WritableChannel,
{
    if let Some(value) = value {
        write_field::<Outer, Part, K>(writes, key, value);
    }
}

/// A channel whose value can be replaced: it has a reducer, or is a topic.
#[diagnostic::on_unimplemented(
    message = "this channel has no reducer, so every write replaces its value",
    label = "`Overwrite` has no meaning here",
    note = "remove `Overwrite` from the type of the field"
)]
pub trait ReplaceableChannel: WritableChannel {
    /// Creates a write that replaces the value.
    fn replacement(&self, value: Self::Value) -> <Self::State as Values>::Write;
}

impl<S: Values, T> ReplaceableChannel for super::Channel<S, T, super::Reduced> {
    fn replacement(&self, value: T) -> S::Write {
        self.overwrite(value)
    }
}

/// Writes the value of a view's field to the channel `key`, by adding a write to `writes`. This write replaces the
/// value of the channel instead of being merged into it.
pub fn replace_field<Outer, Part, K>(writes: &mut Writes<Outer>, key: &K, value: super::Overwrite<K::Value>)
where
    Outer: Contains<Part>,
    Part: Contains<K::State>,
    K: ReplaceableChannel,
{
    writes.push(Outer::lift(Part::lift(key.replacement(value.0))));
}
