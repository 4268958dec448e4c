//! Runs for clients of AG-UI, the Agent-User Interaction Protocol (1.0), such as the front ends of chats.

mod client_tools;
mod diff;
mod input;
mod messages;
mod stream;
mod translate;

pub(crate) use stream::run;
