//! The words of `#[derive(State)]` and `#[derive(View)]`.

/// Attribute of a field: what merges the writes of a step.
pub(crate) const REDUCER: &str = "reducer";
/// Attribute of a field: what kind of channel it is.
pub(crate) const CHANNEL: &str = "channel";
/// Attribute of a field: `flatten`, `rename`.
pub(crate) const STATE: &str = "state";

/// `#[reducer(with = path)]`: a reducer of the user's.
pub(crate) const WITH: &str = "with";
/// `#[reducer(upsert)]`: another name of [`BY_ID`].
pub(crate) const UPSERT: &str = "upsert";
/// `#[reducer(by_id)]`.
pub(crate) const BY_ID: &str = "by_id";
/// What can stand in `#[reducer(…)]`: functions of `hier_core::reducer::builtin`, an alias of one, and `with = path`.
pub(crate) const REDUCERS: &[&str] =
    &["append", "extend", "sum", "product", "max", "min", "any", "all", BY_ID, UPSERT, "last", "messages", WITH];

/// `#[channel(ephemeral)]`: gone when the next step has ended.
pub(crate) const EPHEMERAL: &str = "ephemeral";
/// `#[channel(untracked)]`: never persisted.
pub(crate) const UNTRACKED: &str = "untracked";
/// `#[channel(topic)]`: collects the values of one step.
pub(crate) const TOPIC: &str = "topic";
/// `#[channel(topic(accumulate))]`: collects values for ever.
pub(crate) const ACCUMULATE: &str = "accumulate";
/// `#[channel(delta)]`: savers store what was added.
pub(crate) const DELTA: &str = "delta";
/// The words of `#[channel(…)]`.
pub(crate) const CHANNEL_KINDS: &[&str] = &[EPHEMERAL, UNTRACKED, TOPIC, DELTA];

/// `#[state(flatten)]`: the channels of the field's type become channels of this state.
pub(crate) const FLATTEN: &str = "flatten";
/// `#[state(rename = "name")]`: the channel's name, where it is not the field's.
pub(crate) const RENAME: &str = "rename";
/// The words of `#[state(…)]`.
pub(crate) const STATE_OPTIONS: &[&str] = &[FLATTEN, RENAME];

/// The number of a state's version.
pub(crate) const VERSION: &str = "version";
/// The functions that bring what an older version stored up to date.
pub(crate) const MIGRATE: &str = "migrate";
/// Where hier is, if not where the macros find it: of all macros.
pub(crate) const CRATE: &str = "crate";
/// The words of `#[state(…)]` on the struct.
pub(crate) const STRUCT_OPTIONS: &[&str] = &[VERSION, MIGRATE, CRATE];

/// The managed types: a field whose type's path ends in one of these is written by the engine. With each, the method
/// of `Steps` that makes its value.
pub(crate) const MANAGED: &[(&str, &str)] = &[("RemainingSteps", "remaining_steps"), ("IsLastStep", "is_last_step")];

/// Types of channels that the engine alone writes: they have no setter, and keys that cannot be written.
pub(crate) const INTERNAL: &[&str] = &["SubagentStack"];

/// Types whose setter takes the type itself, so that a literal needs no suffix.
pub(crate) const PRIMITIVES: &[&str] = &[
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64", "bool",
    "char",
];

/// The reducer of conversations, and the name of the channel that is the state's conversation if there are several.
pub(crate) const MESSAGES: &str = "messages";

/// Types of which the setter takes a `&str` for a `String`, if they are of `String`.
pub(crate) const TEXTS: &[&str] = &["Option", "Vec"];

/// Attribute of a view: `of = State`.
pub(crate) const VIEW: &str = "view";
/// `#[view(of = State)]`: the state that is viewed.
pub(crate) const OF: &str = "of";
