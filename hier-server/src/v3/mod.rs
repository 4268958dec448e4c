//! The v3 event protocol of LangGraph: commands to a thread, and a stream of all events on the thread.

pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod filter;
mod messages;
pub(crate) mod socket;
pub(crate) mod translate;
