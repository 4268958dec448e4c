use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;

use super::{CommandAnswers, Payload, SendArg};
use crate::checkpoint::codec;
use crate::state::owned::writes_of;
use crate::state::{Contains, IntoUpdate, Update, Values, Writes};

/// The type of [`START`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start;

/// The type of [`END`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End;

/// The start of a graph, as a source of edges.
pub const START: Start = Start;

/// The end of a graph, as a target of edges and of a [`Command`].
pub const END: End = End;

/// A node as the target of a command. `graph!` generates a constant of this type for each node, such as
/// `Review::notify`.
pub struct Target<S> {
    pub(crate) graph: &'static str,
    pub(crate) node: &'static str,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Target<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Target<S> {}

impl<S> fmt::Debug for Target<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.graph, self.node)
    }
}

impl<S> Target<S> {
    #[doc(hidden)]
    pub const fn new(graph: &'static str, node: &'static str) -> Self {
        Self { graph, node, state: PhantomData }
    }

    /// Returns the name of the node.
    pub const fn name(self) -> &'static str {
        self.node
    }
}

#[derive(Clone)]
pub(crate) struct Jump {
    /// The graph of the target. None for a target that only has a name.
    pub(crate) graph: Option<&'static str>,
    /// The node. None for END.
    pub(crate) node: Option<Cow<'static, str>>,
    pub(crate) arg: Option<SendArg>,
}

/// A target of [`Command::goto`]: a node constant, [`END`], or a node name in a graph that is built at run time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a target in a graph over `{S}`",
    note = "targets are the constants that `graph!` makes (`Review::notify`), and `END`"
)]
pub trait IntoTarget<S> {
    #[doc(hidden)]
    fn into_jump(self) -> JumpTo;
}

/// A target of a [`Command`]. The engine has not yet looked up the node of the target.
#[doc(hidden)]
pub struct JumpTo(pub(crate) Jump);

impl<S> IntoTarget<S> for Target<S> {
    fn into_jump(self) -> JumpTo {
        JumpTo(Jump { graph: Some(self.graph), node: Some(Cow::Borrowed(self.node)), arg: None })
    }
}

impl<S> IntoTarget<S> for End {
    fn into_jump(self) -> JumpTo {
        JumpTo(Jump { graph: None, node: None, arg: None })
    }
}

impl<S> IntoTarget<S> for &str {
    fn into_jump(self) -> JumpTo {
        let node = (self != hier_spec::END).then(|| Cow::Owned(self.to_owned()));
        JumpTo(Jump { graph: None, node, arg: None })
    }
}

impl<S> IntoTarget<S> for String {
    fn into_jump(self) -> JumpTo {
        IntoTarget::<S>::into_jump(self.as_str())
    }
}

/// A state update together with the nodes to run next, which are the *targets* of the command. A node can return a
/// command. As in LangGraph, the targets run in addition to the nodes to which the node's edges lead. A command can
/// also be the input of a run, for example to answer a question.
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Filing { accepted: bool }
/// async fn assess(state: &Filing) -> Command<Filing> {
///     let update = Command::update(Filing::update().accepted(true));
///     if state.accepted { update.goto(END) } else { update.goto(Review::fetch) }
/// }
/// # async fn fetch() {}
/// # graph! { Review<Filing> = Graph {
/// #     nodes: [assess { goto: [fetch, END] }, fetch], edges: [START >> assess, fetch >> END] } }
/// ```
#[must_use = "a command does nothing unless the node returns it"]
pub struct Command<S: Values> {
    #[doc(hidden)]
    pub writes: Writes<S>,
    pub(crate) jumps: Vec<Jump>,
    pub(crate) parent: Option<Box<dyn ParentCommand>>,
    pub(crate) answers: Option<CommandAnswers>,
}

impl<S: Values> Default for Command<S> {
    fn default() -> Self {
        Self { writes: Writes::new(), jumps: Vec::new(), parent: None, answers: None }
    }
}

impl<S: Values> fmt::Debug for Command<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<_> = self.jumps.iter().map(|jump| jump.node.as_deref().unwrap_or(hier_spec::END)).collect();
        f.debug_struct("Command").field("update", &self.writes).field("goto", &targets).finish_non_exhaustive()
    }
}

impl<S: Values> Command<S> {
    /// Replaces the writes of the command.
    #[doc(hidden)]
    pub fn with_writes(self, writes: Writes<S>) -> Self {
        Self { writes, ..self }
    }

    /// Returns true if the command has targets.
    #[doc(hidden)]
    pub fn has_targets(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Returns true if the command is addressed to the parent graph. See [`Command::parent`].
    #[doc(hidden)]
    pub fn is_for_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// Converts the command to a command for the state `T`. The state `T` contains the channels of `S`.
    #[doc(hidden)]
    pub fn lift<T: Contains<S>>(self) -> Command<T> {
        let mut command = Command::new();
        command.writes = self.writes.into_iter().map(T::lift).collect();
        (command.jumps, command.parent) = (self.jumps, self.parent);
        command
    }
}

impl<S: Values> Command<S> {
    /// Creates a command without an update or targets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a command with a target. `Command::to(Review::notify)` is short for
    /// `Command::new().goto(Review::notify)`.
    pub fn to(target: impl IntoTarget<S>) -> Self {
        Self::new().goto(target)
    }

    /// Creates a command with an update. Accepts an update of the state, or a view that owns its fields.
    pub fn update(update: impl IntoUpdate<S>) -> Self {
        Self { writes: writes_of(update), ..Self::default() }
    }

    /// Creates a command that answers the open question of a thread. It is an input for
    /// [`invoke`](crate::graph::CompiledGraph::invoke), and not an output of nodes.
    ///
    /// Use [`Self::answers`] instead if several questions are open, or if a client may send the same answer twice.
    ///
    /// A thread can stop before its next tasks have asked a question, for example at a breakpoint. The answer then goes
    /// to the first question that one of these tasks asks. In all other cases, the run fails with
    /// [`RunError::Answer`](crate::RunError::Answer) if no question is open.
    ///
    /// ```
    /// use hier_core::prelude::*;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { accepted: bool }
    /// let input: Command<Filing> = Command::resume(true);
    /// # let _ = input;
    /// ```
    pub fn resume(answer: impl Serialize) -> Self {
        Self { answers: Some(CommandAnswers::One(answer_json(&answer))), ..Self::default() }
    }

    /// Creates a command that answers questions by [id](crate::Question::id). It is an input for
    /// [`invoke`](crate::graph::CompiledGraph::invoke), and not an output of nodes. Questions without an answer stay
    /// open.
    pub fn answers<Id: Into<String>, A: Serialize>(answers: impl IntoIterator<Item = (Id, A)>) -> Self {
        let answers = answers.into_iter().map(|(id, answer)| (id.into(), answer_json(&answer))).collect();
        Self { answers: Some(CommandAnswers::ById(answers)), ..Self::default() }
    }

    /// Adds an update to the command. Accepts an update of the state, or a view that owns its fields. In a command for
    /// [`invoke`](crate::graph::CompiledGraph::invoke), the engine applies the update before any node runs.
    pub fn with_update(mut self, update: impl IntoUpdate<S>) -> Self {
        update.write_into(&mut self.writes);
        self
    }

    /// Adds a node to run next. The target [`END`] adds no node.
    pub fn goto(mut self, target: impl IntoTarget<S>) -> Self {
        self.jumps.push(target.into_jump().0);
        self
    }

    /// Adds a task of the node `target`. The node receives the payload as its [`Sent<T>`](crate::graph::Sent) argument.
    ///
    /// A node without a `Sent` argument reads the payload as its state. Such a payload must serialize to an object with
    /// channels as keys. Channels that the object lacks have their initial values.
    pub fn send(mut self, target: impl IntoTarget<S>, payload: impl Payload) -> Self {
        self.jumps.push(Jump { arg: Some(SendArg::new(payload)), ..target.into_jump().0 });
        self
    }

    /// Addresses the command to the parent graph. If a node of a subgraph returns such a command, the subgraph ends,
    /// and the engine drops the writes of the subgraph. The parent graph then applies the command as if the node that
    /// runs the subgraph had returned it. `Child` is the state of the subgraph.
    pub fn parent<Child: Values>(self) -> Command<Child> {
        Command { parent: Some(Box::new(Output::from(self))), ..Command::default() }
    }
}

/// Returns an answer as JSON. If this fails, returns a string with the reason, which no question accepts.
fn answer_json(answer: &impl Serialize) -> Value {
    codec::to_json(answer).unwrap_or_else(|error| Value::String(format!("no answer: {error}")))
}

/// The output of a node.
pub struct Output<S: Values> {
    pub(crate) writes: Writes<S>,
    /// The targets of the node. None if the node has not chosen any. Boxed, because most nodes have no targets and
    /// outputs are moved often.
    pub(crate) gotos: Option<Box<Gotos>>,
}

#[derive(Default)]
pub(crate) struct Gotos {
    pub(crate) jumps: Vec<Jump>,
    pub(crate) parent: Option<Box<dyn ParentCommand>>,
}

impl<S: Values> Default for Output<S> {
    fn default() -> Self {
        Self { writes: Writes::new(), gotos: None }
    }
}

impl<S: Values> From<Command<S>> for Output<S> {
    fn from(Command { writes, jumps, parent, .. }: Command<S>) -> Self {
        let gotos = (!jumps.is_empty() || parent.is_some()).then(|| Box::new(Gotos { jumps, parent }));
        Self { writes, gotos }
    }
}

impl<S: Values> Output<S> {
    /// Creates an output from an update, or from a view that owns its fields.
    #[doc(hidden)]
    pub fn written(update: impl IntoUpdate<S>) -> Self {
        Self { writes: writes_of(update), gotos: None }
    }

    /// Creates an output from an update. Code that `#[derive(State)]` generates calls this function.
    #[doc(hidden)]
    pub fn update<U: Update<State = S>>(update: U) -> Self {
        Self { writes: update.into_writes(), gotos: None }
    }
}

/// A command for a parent graph, without the type of the parent's state.
pub(crate) trait ParentCommand: Any + Send + Sync {
    fn state_name(&self) -> &'static str;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<S: Values> ParentCommand for Output<S> {
    fn state_name(&self) -> &'static str {
        std::any::type_name::<S>()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
