use crate::engine::program::Command;
use crate::state::{Update, Values};

/// An update of a thread's state that does not come from a run. The engine applies it as if a node had returned it.
#[derive(Debug)]
pub struct StateUpdate<S: Values> {
    pub(crate) command: Command<S>,
    pub(crate) by: Author,
}

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

    pub(super) fn duplicate(&self) -> Self {
        let Command { writes, jumps, .. } = &self.command;
        Self::new(Command { writes: writes.clone(), jumps: jumps.clone(), ..Command::default() }, self.by.clone())
    }

    /// Creates an update that the engine attributes to the node that ran last.
    pub fn update(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Last)
    }

    /// Creates an update from a command. The engine attributes the update to the node that ran last, and runs the
    /// targets of the command next.
    pub fn command(command: Command<S>) -> Self {
        Self::new(command, Author::Last)
    }

    /// Attributes the update to this node. The engine follows the edges of the node as if the node had just run.
    ///
    /// Four names are special:
    ///
    /// * `__start__` is START.
    /// * `__input__` makes the update a new input, like [`Self::input`].
    /// * `__end__` finishes the thread, like [`Self::finish`].
    /// * `__copy__` copies the checkpoint, like [`Self::copy`].
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

    /// Creates an update that is a new input. It does not run the graph. The next run applies the input, and runs the
    /// nodes to which START leads. It also runs the nodes that were next before this update.
    pub fn input(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Input)
    }

    /// Creates an update that skips this node. The update writes nothing. The engine follows the edges of the node as
    /// if the node had just run.
    pub fn skip(node: impl Into<String>) -> Self {
        Self::new(Command::new(), Author::Last).as_node(node)
    }

    /// Creates an update that finishes the thread. It applies the results of tasks that have finished in the open
    /// superstep, and drops the other tasks.
    pub fn finish() -> Self {
        Self::new(Command::new(), Author::End)
    }

    /// Creates an update that stores a copy of the thread's current or selected checkpoint. The copy and the original
    /// have the same parent.
    pub fn copy() -> Self {
        Self::new(Command::new(), Author::Copy)
    }
}
