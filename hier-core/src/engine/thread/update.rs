//! An update of a thread's state from outside its runs, and as who it is made.

use crate::engine::program::Command;
use crate::state::{Update, Values};

/// An update of a thread's state from outside its runs, as if a node had returned it.
#[derive(Debug)]
pub struct StateUpdate<S: Values> {
    pub(crate) command: Command<S>,
    pub(crate) by: Author,
}

/// As who an update is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The node that ran last.
    Last,
    Node(String),
    Start,
    Input,
    End,
    Copy,
}

impl<S: Values> StateUpdate<S> {
    fn new(command: Command<S>, by: Author) -> Self {
        Self { command, by }
    }

    /// The same once more.
    pub(super) fn again(&self) -> Self {
        let Command { writes, jumps, .. } = &self.command;
        Self::new(Command { writes: writes.clone(), jumps: jumps.clone(), ..Command::default() }, self.by.clone())
    }

    /// An update as the node that ran last.
    pub fn update(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Last)
    }

    /// A command as the node that ran last: its targets are followed too.
    pub fn command(command: Command<S>) -> Self {
        Self::new(command, Author::Last)
    }

    /// As this node: its edges are followed, as if it had just run. `__start__` is START.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        let node = node.into();
        self.by = match node.as_str() {
            hier_spec::START => Author::Start,
            hier_spec::END => Author::End,
            "__input__" => Author::Input,
            "__copy__" => Author::Copy,
            _ => Author::Node(node),
        };
        self
    }

    /// As a new input that has not been applied: START runs next, beside what was to run.
    pub fn input(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Input)
    }

    /// Nothing but the node's edges: it counts as done.
    pub fn skip(node: impl Into<String>) -> Self {
        Self::new(Command::new(), Author::Last).as_node(node)
    }

    /// Ends the thread: what tasks of the open step have done is applied, what is left is dropped.
    pub fn finish() -> Self {
        Self::new(Command::new(), Author::End)
    }

    /// A copy of the checkpoint beside it, with the same parent.
    pub fn copy() -> Self {
        Self::new(Command::new(), Author::Copy)
    }
}
