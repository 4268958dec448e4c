//! Commands: an update together with where to go on.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;

use super::{Payload, SendArg};
use crate::checkpoint::codec;
use crate::state::{Contains, Update, Values, Writes};

/// The beginning of a graph, as the builder names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start;

/// The end of a graph: a target for the builder and for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End;

/// The beginning of a graph.
pub const START: Start = Start;

/// The end of a graph.
pub const END: End = End;

/// A node as the target of a command. `graph!` makes a constant of it for each node: `Review::notify`.
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
    /// Used by the macro.
    #[doc(hidden)]
    pub const fn new(graph: &'static str, node: &'static str) -> Self {
        Self { graph, node, state: PhantomData }
    }

    /// The name of the node.
    pub const fn name(self) -> &'static str {
        self.node
    }
}

/// Where a command goes: a node or the end.
#[derive(Clone)]
pub(crate) struct Jump {
    /// The graph that the target belongs to, where known.
    pub(crate) graph: Option<&'static str>,
    /// The node; none is END.
    pub(crate) node: Option<Cow<'static, str>>,
    pub(crate) arg: Option<SendArg>,
}

/// A target of [`Command::goto`]: a constant of the graph, [`END`], or (for graphs built at run time) a name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no target in a graph over `{S}`",
    note = "targets are the constants that `graph!` makes (`Review::notify`), and `END`"
)]
pub trait IntoTarget<S> {
    #[doc(hidden)]
    fn into_jump(self) -> JumpTo;
}

/// A target, resolved when the command is applied.
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

/// An update, and where to go on. The targets add to the node's own edges, they do not replace them (as in the
/// reference).
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
    pub(crate) answers: Option<Answers>,
}

/// The answers of a caller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answers {
    /// To the only question, or (where nobody has asked) to the first.
    One(Value),
    /// To these questions, by their ids.
    ById(Vec<(String, Value)>),
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
    /// The same with these writes in place of its own.
    #[doc(hidden)]
    pub fn with_writes(self, writes: Writes<S>) -> Self {
        Self { writes, ..self }
    }

    /// Returns true if it names targets.
    #[doc(hidden)]
    pub fn has_targets(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Returns true if it is for the graph around.
    #[doc(hidden)]
    pub fn is_for_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// The same as a command over a state that contains this one.
    #[doc(hidden)]
    pub fn lift<T: Contains<S>>(self) -> Command<T> {
        let mut command = Command::new();
        command.writes = self.writes.into_iter().map(T::lift).collect();
        (command.jumps, command.parent) = (self.jumps, self.parent);
        command
    }
}

impl<S: Values> Command<S> {
    /// A command that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A command that goes somewhere: `Command::to(Review::notify)`, short for `Command::new().goto(Review::notify)`.
    pub fn to(target: impl IntoTarget<S>) -> Self {
        Self::new().goto(target)
    }

    /// A command with an update.
    pub fn update<U: Update<State = S>>(update: U) -> Self {
        Self { writes: update.into_writes(), ..Self::default() }
    }

    /// Answers the question that the thread waits with: for [`invoke`](crate::graph::CompiledGraph::invoke), not for nodes.
    ///
    /// If several questions are open, or if the same answer may be given twice (a person clicks again), answer by id
    /// ([`Self::answers`]). If nobody has asked in the step, as at a breakpoint, the first question of the nodes that run next
    /// gets the answer. An answer that no question waits for is refused.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { accepted: bool }
    /// let input: Command<Filing> = Command::resume(true);
    /// # let _ = input;
    /// ```
    pub fn resume(answer: impl Serialize) -> Self {
        Self { answers: Some(Answers::One(answer_json(&answer))), ..Self::default() }
    }

    /// Answers questions by their ids ([`Question::id`](crate::Question::id)): for [`invoke`](crate::graph::CompiledGraph::invoke),
    /// not for nodes. Those that are not answered stay open, and who asked them waits.
    pub fn answers<Id: Into<String>, A: Serialize>(answers: impl IntoIterator<Item = (Id, A)>) -> Self {
        let answers = answers.into_iter().map(|(id, answer)| (id.into(), answer_json(&answer))).collect();
        Self { answers: Some(Answers::ById(answers)), ..Self::default() }
    }

    /// The same with an update. It is applied before any node runs, if the command is given to
    /// [`invoke`](crate::graph::CompiledGraph::invoke).
    pub fn with_update<U: Update<State = S>>(mut self, update: U) -> Self {
        update.into_writes().into_iter().for_each(|write| self.writes.set(write));
        self
    }

    /// Goes to a node, or to [`END`] (which goes nowhere).
    pub fn goto(mut self, target: impl IntoTarget<S>) -> Self {
        self.jumps.push(target.into_jump().0);
        self
    }

    /// Starts a task of a node with this payload, which the node takes as `Sent<T>`. A node that takes no `Sent` and reads the state sees
    /// the payload as the state: it must be an object of channels, and channels that it does not name have their initial values.
    pub fn send(mut self, target: impl IntoTarget<S>, payload: impl Payload) -> Self {
        self.jumps.push(Jump { arg: Some(SendArg::new(payload)), ..target.into_jump().0 });
        self
    }

    /// Addresses the command to the parent graph: this graph ends, what it wrote is dropped, and the parent takes the
    /// command as if the node that runs this graph had returned it. `Child` is the state of this graph.
    pub fn parent<Child: Values>(self) -> Command<Child> {
        Command { parent: Some(Box::new(Output::from(self))), ..Command::default() }
    }
}

/// Returns an answer as JSON. If it cannot be serialized, returns a string with the reason, which no question accepts as an answer.
fn answer_json(answer: &impl Serialize) -> Value {
    codec::to_json(answer).unwrap_or_else(|error| Value::String(format!("no answer: {error}")))
}

/// The return value of a node, as the engine takes it.
pub struct Output<S: Values> {
    pub(crate) writes: Writes<S>,
    /// Where to go, if the node says so itself. Boxed, since most nodes do not and outputs are moved often.
    pub(crate) gotos: Option<Box<Gotos>>,
}

/// Where a command goes.
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
    /// The output of a node that returns an update. Used by the derive.
    #[doc(hidden)]
    pub fn update<U: Update<State = S>>(update: U) -> Self {
        Self { writes: update.into_writes(), gotos: None }
    }
}

/// A command for a parent, whose state this graph does not know.
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
