//! The second protocol: commands to a thread, and one stream of events of everything that happens on it. SDKs call it v3.

pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod filter;
mod messages;
pub(crate) mod socket;
pub(crate) mod translate;
