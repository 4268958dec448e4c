//! Models for tests, which need no network.

mod recorded;
mod recording;
mod scripted;

pub use recorded::RecordedModel;
pub use scripted::ScriptedModel;
