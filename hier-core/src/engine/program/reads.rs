use serde::Serialize;

use crate::checkpoint::codec;
use crate::error::NodeError;

/// A cache key as a 128-bit hash. Tasks with equal hashes share a cached result.
pub struct InputKey(pub(crate) u128);

/// A cache key that a `cache_key` function returns.
#[diagnostic::on_unimplemented(
    message = "the key of a `cache` cannot be a `{Self}`",
    label = "returns a `{Self}`",
    note = "the function is not an `async fn`, and returns a value that distinguishes inputs: anything with `Serialize`, such as a `String` or a \
            tuple"
)]
pub trait TellsApart {
    /// Returns the hash of this key.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be serialized.
    fn input_key(&self) -> Result<InputKey, NodeError>;
}

impl<T: Serialize> TellsApart for T {
    fn input_key(&self) -> Result<InputKey, NodeError> {
        let hash = codec::hash(self);
        hash.map(InputKey)
            .map_err(|error| NodeError::permanent(format!("the key of its `cache` cannot be serialized: {error}")))
    }
}
