//! Requirements on the values of channels.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;

/// A value that checkpoints can store. Implemented for all types that are `Serialize`, `DeserializeOwned`, `Send`,
/// `Sync` and `'static`.
///
/// To hold another type in a channel, mark the channel `#[channel(untracked)]`.
#[diagnostic::on_unimplemented(
    message = "a channel of type `{Self}` cannot be persisted",
    label = "cannot be persisted",
    note = "derive `Serialize` and `Deserialize` for it; it must also be `Send + Sync + 'static`. Checkpointers, streams, caches and sends \
            store values, so every channel needs this, also in a graph that runs in memory only",
    note = "what a run uses (clients, pools, models) belongs into the context, `&Run<Desk>`; a value that need not outlive the run is \
            `#[channel(untracked)]`, with `#[serde(skip)]` where the state derives `Serialize`"
)]
pub trait Persist: Serialize + DeserializeOwned + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Persist for T {}

/// A type parameter of a state: the type of a channel, stored or not.
#[diagnostic::on_unimplemented(
    message = "a state cannot hold a `{Self}`",
    label = "cannot be part of a state",
    note = "the type must be `Clone + Default + Send + Sync + 'static`"
)]
pub trait Carried: Clone + Default + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Default + Send + Sync + 'static> Carried for T {}

/// A type parameter of a state: the type of a stored channel.
#[diagnostic::on_unimplemented(
    message = "a state cannot hold a `{Self}`",
    label = "cannot be part of a state",
    note = "the type must be `Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static`"
)]
pub trait Parameter: Carried + Persist {}

#[diagnostic::do_not_recommend]
impl<T: Carried + Persist> Parameter for T {}

/// A function that migrates a stored state of an older version. It receives an object with channels as keys. It may
/// rename, change, add and remove channels.
///
/// The object can lack channels: the engine also migrates the writes of a task, which contain only some channels. A
/// migration must not fail because a channel is missing.
///
/// ```
/// use hier_core::prelude::*;
///
/// /// Version 1 had a single string with all findings.
/// fn from_v1(stored: &mut serde_json::Map<String, serde_json::Value>) -> hier_core::Result<()> {
///     if let Some(serde_json::Value::String(text)) = stored.remove("text") {
///         stored.insert("findings".to_owned(), text.lines().collect());
///     }
///     Ok(())
/// }
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// #[state(version = 2, migrate = from_v1)]
/// struct Filing {
///     #[reducer(append)]
///     findings: Vec<String>,
/// }
/// ```
pub type Migration = fn(&mut Map<String, Value>) -> Result<(), NodeError>;

/// A channel value of any type, as the engine stores it.
pub trait Stored {
    /// Returns the value as JSON.
    fn to_json(&self) -> Result<Value, serde_json::Error>;

    /// Appends the stored form of the value to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Checks that a value of this type can be read from these bytes.
    fn check_readable(&self, bytes: &[u8]) -> Result<(), CodecError>;
}

/// Appends the stored form of a value to `bytes`, and checks that the value can be read back. Release builds check it
/// only if `readable` is false. Sets `readable`.
#[doc(hidden)]
pub fn encode_readable(value: &dyn Stored, bytes: &mut Vec<u8>, readable: &mut bool) -> Result<(), CodecError> {
    let start = bytes.len();
    value.encode(bytes)?;
    if cfg!(debug_assertions) || !*readable {
        value.check_readable(&bytes[start..])?;
        *readable = true;
    }
    Ok(())
}

impl<T: Persist> Stored for T {
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        codec::to_json(self).map_err(serde::ser::Error::custom)
    }

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        codec::encode_into(self, bytes)
    }

    fn check_readable(&self, bytes: &[u8]) -> Result<(), CodecError> {
        codec::check_readable::<T>(bytes)
    }
}
