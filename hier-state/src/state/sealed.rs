//! The trait that prevents other crates from implementing the traits of states.

/// A trait that only `#[derive(State)]` and hier itself implement. hier can therefore add methods to
/// [`Values`](super::Values) and [`ChannelWrite`](super::ChannelWrite) without a breaking change.
pub trait Sealed {}
