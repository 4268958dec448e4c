//! Models without a network.

mod recorded;
mod recording;
mod scripted;

pub use recorded::RecordedModel;
pub use scripted::ScriptedModel;
