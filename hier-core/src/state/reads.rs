//! Describes what the arguments of functions read.

/// The part of a task's input that one argument of a node reads.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    /// Unknown: the payload of a Send, or else the state.
    Input,
    /// The whole state.
    State,
    /// The channels of the state with these names. Managed channels have none.
    Channels(&'static [Option<&'static str>]),
    /// The payload of a Send.
    Sent,
    /// Nothing that distinguishes results.
    Nothing,
}
