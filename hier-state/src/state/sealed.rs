//! Keeps the engine's side of states in this crate.

/// Implemented by what the derive generates and by the dynamic states, so that methods can be added to [`Values`](super::Values)
/// and [`ChannelWrite`](super::ChannelWrite) without a breaking change.
pub trait Sealed {}
