//! Models without a network.

mod recorded;
mod scripted;
mod tape;

pub use recorded::RecordedModel;
pub use scripted::ScriptedModel;
