//! Describes what the arguments of functions read.

use hier_spec::flow::ChannelSet;

/// The part of a task's input that one argument of a node reads.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    /// Unknown: the payload of a Send, or else the state.
    Input,
    /// The whole state.
    State,
    /// These channels of the state. Managed fields are not among them.
    Channels(ChannelSet),
    /// The payload of a Send.
    Sent,
    /// Nothing that distinguishes results.
    Nothing,
}

impl Reads {
    /// Reads these channels, or the whole state if they are unknown.
    pub const fn channels(channels: Option<ChannelSet>) -> Self {
        match channels {
            Some(channels) => Self::Channels(channels),
            None => Self::State,
        }
    }
}
