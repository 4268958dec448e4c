//! The v3 event protocol: commands to a thread, and one stream of all events on it.

pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod filter;
mod messages;
pub(crate) mod socket;
pub(crate) mod translate;
