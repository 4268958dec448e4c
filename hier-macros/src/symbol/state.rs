//! The words of `#[derive(State)]` and `#[derive(View)]`.

// Attributes of a field.
pub(crate) const REDUCER: &str = "reducer";
pub(crate) const CHANNEL: &str = "channel";
pub(crate) const STATE: &str = "state";

// The words of `#[reducer(…)]`.
pub(crate) const WITH: &str = "with";
pub(crate) const UPSERT: &str = "upsert";
pub(crate) const BY_ID: &str = "by_id";

/// Functions of `hier_core::reducer::builtin`, an alias of one, and `with = path`.
pub(crate) const REDUCERS: &[&str] =
    &["append", "extend", "sum", "product", "max", "min", "any", "all", BY_ID, UPSERT, "last", "messages", WITH];

/// Functions of other languages and frameworks that merge two values, each with the replacement.
pub(crate) const FOREIGN_REDUCERS: &[(&str, &str)] = &[
    ("add", "write `append` for a list, or `sum` for a number"),
    ("concat", "write `append`"),
    ("push", "write `append`"),
    ("union", "write `extend`"),
    ("update", "write `extend`"),
    ("or_", "write `extend` for a set or a map, or `any` for a `bool`"),
    ("mul", "write `product`"),
    ("replace", "a write replaces the value of a channel without a reducer: remove the attribute, or write `last`"),
];

// The words of `#[channel(…)]`.
pub(crate) const EPHEMERAL: &str = "ephemeral";
pub(crate) const UNTRACKED: &str = "untracked";
pub(crate) const TOPIC: &str = "topic";
pub(crate) const ACCUMULATE: &str = "accumulate";
pub(crate) const DELTA: &str = "delta";
pub(crate) const SECRET: &str = "secret";
pub(crate) const INITIAL: &str = "initial";
pub(crate) const CHANNEL_KINDS: &[&str] = &[EPHEMERAL, UNTRACKED, TOPIC, DELTA, SECRET, INITIAL];

// The words of `#[state(…)]` on a field.
pub(crate) const FLATTEN: &str = "flatten";
pub(crate) const RENAME: &str = "rename";
pub(crate) const STATE_OPTIONS: &[&str] = &[FLATTEN, RENAME];

// The words of `#[state(…)]` on the struct. All macros have `crate`.
pub(crate) const VERSION: &str = "version";
pub(crate) const MIGRATE: &str = "migrate";
pub(crate) const CRATE: &str = "crate";
pub(crate) const STRUCT_OPTIONS: &[&str] = &[VERSION, MIGRATE, CRATE];

/// The last path segments of managed types, each with the method of `Steps` that returns its value.
pub(crate) const MANAGED: &[(&str, &str)] = &[("RemainingSteps", "remaining_steps"), ("IsLastStep", "is_last_step")];

/// Types of channels that only the engine writes. They have no setter, and their keys are read-only.
pub(crate) const INTERNAL: &[&str] = &["SubagentStack"];

/// Types whose setter takes the type itself, so that a literal needs no suffix.
pub(crate) const PRIMITIVES: &[&str] = &[
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64", "bool",
    "char",
];

/// The reducer of conversations. If several channels have it, the one of this name is the conversation.
pub(crate) const MESSAGES: &str = "messages";

/// Types whose setter accepts `&str` if their argument is `String`.
pub(crate) const TEXTS: &[&str] = &["Option", "Vec"];

// `#[view(of = State)]`.
pub(crate) const VIEW: &str = "view";
pub(crate) const OF: &str = "of";
/// `#[view(optional)]` on a field.
pub(crate) const OPTIONAL: &str = "optional";
/// The type of a field that replaces the value of its channel.
pub(crate) const OVERWRITE: &str = "Overwrite";
