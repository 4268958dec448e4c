//! What a channel's value must be able to do.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that a checkpoint can hold: it can be written and read back, and it can move between threads.
///
/// Implemented for every type with these properties; a channel that is not persisted is
/// `#[channel(untracked)]`.
#[diagnostic::on_unimplemented(
    message = "a channel of type `{Self}` cannot be persisted",
    label = "cannot be persisted",
    note = "the type needs `Serialize` and `Deserialize` and must be `Send + Sync + 'static`",
    note = "a value that need not outlive the run is `#[channel(untracked)]`, with `#[serde(skip)]` where the state derives \
            `Serialize`"
)]
pub trait Persist: Serialize + DeserializeOwned + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Persist for T {}

/// A type parameter of a state: a value that a channel can hold, persisted or not.
#[diagnostic::on_unimplemented(
    message = "a state cannot hold a `{Self}`",
    label = "cannot be part of a state",
    note = "the type must be `Clone + Default + Send + Sync + 'static`"
)]
pub trait Carried: Clone + Default + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Clone + Default + Send + Sync + 'static> Carried for T {}

/// A type parameter of a state whose values are persisted.
#[diagnostic::on_unimplemented(
    message = "a state cannot hold a `{Self}`",
    label = "cannot be part of a state",
    note = "the type must be `Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static`"
)]
pub trait Parameter: Carried + Persist {}

#[diagnostic::do_not_recommend]
impl<T: Carried + Persist> Parameter for T {}
