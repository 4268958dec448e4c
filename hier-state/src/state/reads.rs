//! Describes what the arguments of functions read.

use hier_spec::flow::ChannelSet;

/// The part of a task's input that one argument of a node reads.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    /// The whole input: the payload if a Send started the task, and otherwise the state.
    Input,
    /// The whole state.
    State,
    /// These channels of the state, without managed fields.
    Channels(ChannelSet),
    /// The payload of a Send.
    Sent,
    /// No part of the input. The argument is the run, the error of a failed node, or an `Ask`.
    Nothing,
}

impl Reads {
    /// Returns [`Self::Channels`] with these channels, or [`Self::State`] if the channels are unknown.
    pub const fn channels(channels: Option<ChannelSet>) -> Self {
        match channels {
            Some(channels) => Self::Channels(channels),
            None => Self::State,
        }
    }
}
