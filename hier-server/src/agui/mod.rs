//! AG-UI: the same runs for clients of the Agent-User Interaction Protocol (1.0), which front ends of chats speak.

mod diff;
mod input;
mod messages;
mod stream;
mod translate;

pub(crate) use stream::run;
