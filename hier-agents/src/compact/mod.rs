//! Compaction of conversations that are longer than their model can read.
//!
//! The state keeps every message. A [`Compaction`] next to the conversation describes a *view* of it, which the engine
//! builds anew for each request. It is an ordinary channel value: it is stored with the reply that it was made for,
//! forked with the thread, and undone by writing another one. Writing `None` sends everything again. [`Compact`]
//! decides when a compaction is made.
//!
//! A compaction has four stages and ends at the first that is sufficient:
//! 1. Old tool results are cleared. A line says how to read them again.
//! 2. Long texts and arguments in old messages are shortened to their beginning and end, with a note on how to read the
//!    rest.
//! 3. A model summarizes the oldest messages.
//! 4. Messages that are still too long are clipped, one by one.
//!
//! The model reads the omitted text from the state itself, with the tool `read_earlier`. The tool reads messages by
//! their ids, or searches for a text. A copy in a store would be a second source of truth: not forked, not undone, not
//! deleted with the thread.
//!
//! The view of a valid conversation is valid:
//! * The summary never separates a call from its result.
//! * All system messages are sent. The first other message is a user message.
//! * An assistant message with reasoning, which its provider may have signed, is sent unchanged or not at all.
//! * Files and images in messages that are sent whole are unchanged.

mod cut_points;
mod policy;
pub(crate) mod read_earlier;
mod record;
mod shorten;
mod size;
mod stages;
#[cfg(test)]
mod tests;
pub(crate) mod transcript;
mod view;

pub use policy::Compact;
pub use record::{Clipping, Compaction, MessageMark};
pub(crate) use size::{ContextUsage, context_usage, fixed_size};
pub(crate) use stages::{CompactionGoal, NextStage, apply_stages};
pub use view::compacted;
