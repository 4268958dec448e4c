use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use hier_spec::GraphSpec;
use hier_spec::trust::GraphTrust;

use super::input::{DeclaredInput, GraphInput};
use super::request::{GraphRequest, Invoke, NeedsContext, Streaming};
use crate::channel::ChannelSpec;
use crate::checkpoint::Checkpointer;
use crate::engine::PreparedRun;
use crate::engine::Saver;
use crate::engine::program::{
    Attachments, GraphOutput, Hooks, NodeCache, NodeDef, Plan, Prepare, Program, RouteFn, Routing, SpecRef,
};
use crate::error::NodeError;
use crate::question::{QuestionFacts, QuestionType};
use crate::state::{DynState, DynUpdate, State, Values};
use crate::store::Store;

/// A graph that is declared with `graph!`. The macro implements this trait.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a graph", note = "declare graphs with `graph!`")]
pub trait Graph: Copy + Send + Sync + 'static {
    /// The state of the graph.
    type State: State;
    /// The context of a run, which nodes read with [`Run::context`](crate::Run::context).
    type Context: Send + Sync + 'static;
    /// The view that the graph declares as its `input:`. Defaults to [`FullState`](super::FullState).
    type Input: DeclaredInput<Self::State>;
    /// The view that the graph declares as its `output:`. Defaults to the state.
    type Output: GraphOutput<Self::State>;

    /// The name of the graph.
    const NAME: &'static str;
    /// The nodes and edges of the graph as data.
    const SPEC: &'static GraphSpec;
    /// The number of levels of nested subgraphs. If a graph contains itself, the compiler cannot evaluate this constant
    /// and reports an error.
    const DEPTH: usize;

    /// Returns the spec with the code of the nodes and routes, in the order of the spec.
    #[doc(hidden)]
    fn parts() -> Parts<Self::State, Self::Context>;

    /// Returns the spec with the code of the nodes and routes, for a graph that is the root of a hierarchy. Defaults to
    /// [`parts`](Self::parts).
    #[doc(hidden)]
    fn root_parts() -> Parts<Self::State, Self::Context> {
        Self::parts()
    }

    /// True if the graph or one of its subgraphs calls a model.
    #[doc(hidden)]
    const ASKS_MODEL: bool = false;

    /// The channels that the graph reads and writes, for the checks of an outer graph.
    #[doc(hidden)]
    const FLOW: super::GraphFlow = super::GraphFlow::UNKNOWN;
    /// The data that the graph may read and send, according to the trust labels of its tools.
    const TRUST: GraphTrust = GraphTrust::NONE;
    /// The questions that the graph and its subgraphs can ask.
    #[doc(hidden)]
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;

    /// Returns the functions that the engine calls when a run enters or leaves the graph, and before each input.
    #[doc(hidden)]
    fn hooks() -> Hooks<Self::State, Self::Context> {
        Hooks::default()
    }

    /// Returns the name of the channel that receives [messages from outside](CompiledGraph::send), or `None` if the
    /// graph has no `inbox`.
    #[doc(hidden)]
    fn inbox() -> Option<String> {
        None
    }

    /// Compiles the graph.
    fn compile() -> Compiled<Self> {
        const { assert!(Self::DEPTH < usize::MAX) }
        compiled::<Self>(Self::parts())
    }

    /// Compiles the graph as the root of a hierarchy. Use this method to run an agent that otherwise reports to a
    /// supervisor: its model then ends the work with the tool `finish_task`. For all other graphs, this method is the
    /// same as [`compile`](Self::compile).
    fn compile_as_root() -> Compiled<Self> {
        const { assert!(Self::DEPTH < usize::MAX) }
        compiled::<Self>(Self::root_parts())
    }
}

fn compiled<G: Graph>(mut parts: Parts<G::State, G::Context>) -> Compiled<G> {
    parts.hooks = G::hooks().prepared_by(parts.hooks);
    parts.inbox = G::inbox();
    parts.trust = G::TRUST;
    parts.questions = G::QUESTIONS;
    CompiledGraph::new(parts, Arc::new(G::State::default), G::State::CHANNELS.iter().cloned().collect())
}

/// The type that [`Graph::compile`] returns for the graph `G`.
pub type Compiled<G> =
    CompiledGraph<<G as Graph>::State, <G as Graph>::Context, <G as Graph>::Input, <G as Graph>::Output>;

/// The spec of a graph with the code of its nodes and routes.
#[must_use]
pub struct Parts<S: Values, C = ()> {
    pub(crate) spec: SpecRef,
    pub(crate) nodes: Vec<NodeDef<S, C>>,
    pub(crate) routes: Vec<RouteFn<S>>,
    pub(crate) hooks: Hooks<S, C>,
    pub(crate) is_agent: bool,
    /// True if the graph is a part of its outer graph. The events of its nodes are then events of the outer graph.
    pub(crate) is_part: bool,
    /// True if the graph accepts everything that LangGraph accepts.
    pub(crate) lenient: bool,
    pub(crate) inbox: Option<String>,
    pub(crate) trust: GraphTrust,
    pub(crate) questions: QuestionFacts,
    /// The declared questions of a graph that was built at run time.
    pub(crate) asked: Vec<QuestionType>,
}

impl<S: Values, C> fmt::Debug for Parts<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("graph", &self.spec.name).finish_non_exhaustive()
    }
}

impl<S: Values, C> Parts<S, C> {
    /// Creates the parts of a graph whose nodes are built at run time.
    #[doc(hidden)]
    pub fn made(spec: SpecRef, nodes: Vec<NodeDef<S, C>>, hooks: Hooks<S, C>) -> Self {
        Self {
            spec,
            nodes,
            routes: Vec::new(),
            hooks,
            is_agent: false,
            is_part: false,
            lenient: false,
            inbox: None,
            trust: GraphTrust::NONE,
            questions: QuestionFacts::Unknown,
            asked: Vec::new(),
        }
    }

    /// Marks the graph as an agent, which is a graph that calls a model.
    #[doc(hidden)]
    pub fn agent(self) -> Self {
        Self { is_agent: true, ..self }
    }

    /// Sets the trust of a graph that is built at run time: the data that the graph may read and send.
    #[doc(hidden)]
    pub fn trusted(self, trust: GraphTrust) -> Self {
        Self { trust, ..self }
    }

    /// Sets the declared questions of a graph that is built at run time.
    #[doc(hidden)]
    pub fn asking(self, asked: Vec<QuestionType>) -> Self {
        Self { asked, ..self }
    }

    /// Sets a function that adds writes to each new input. The engine calls this function before the `prepare` function
    /// of the [`Hooks`].
    #[doc(hidden)]
    pub fn mark_input(mut self, mark: Prepare<S>) -> Self {
        self.hooks.mark_input = Some(mark);
        self
    }

    /// Marks the graph as a part of its outer graph, so that the events of its nodes are events of the outer graph.
    /// `route` becomes the route that leads from START.
    #[doc(hidden)]
    pub fn part(self, route: RouteFn<S>) -> Self {
        Self { is_part: true, routes: vec![route], ..self }
    }

    /// Creates the parts of a graph without the code of its nodes and routes. Add the code with [`node`](Self::node)
    /// and [`route`](Self::route), in the order of the spec.
    pub fn new(spec: &'static GraphSpec) -> Self {
        Self::made(SpecRef::Static(spec), Vec::new(), Hooks::default())
    }

    /// Adds the code of the next node of the spec.
    pub fn node(mut self, node: NodeDef<S, C>) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds the code of the next route of the spec.
    pub fn route(mut self, route: impl Fn(&S, &mut Routing) + Send + Sync + 'static) -> Self {
        self.routes.push(Arc::new(move |state, routing| {
            route(state, routing);
            Ok(())
        }));
        self
    }
}

/// A graph that is ready to run. Clones are cheap and share the graph.
///
/// The type parameters are the state `S`, the context `C`, the input view `I` (defaults to
/// [`FullState`](super::FullState)), and the output `O`.
pub struct CompiledGraph<S: Values, C = (), I = super::FullState, O = S> {
    pub(crate) inner: Arc<Program<S, C>>,
    pub(crate) attached: Attachments,
    types: PhantomData<fn(I) -> O>,
}

impl<S: Values, C, I, O> Clone for CompiledGraph<S, C, I, O> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), attached: self.attached.clone(), types: PhantomData }
    }
}

impl<S: Values, C, I, O> fmt::Debug for CompiledGraph<S, C, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledGraph").field("name", &self.spec().name).finish_non_exhaustive()
    }
}

impl<S: Values, C, I, O> CompiledGraph<S, C, I, O> {
    #[doc(hidden)]
    pub fn new(parts: Parts<S, C>, initial: Arc<dyn Fn() -> S + Send + Sync>, channels: Vec<ChannelSpec>) -> Self {
        let plan = Arc::new(Plan::new(&parts.spec).of_agent(parts.is_agent));
        let nodes = plan.in_order(parts.nodes);
        let Parts { spec, routes, hooks, is_agent, is_part, lenient, inbox, trust, questions, asked, .. } = parts;
        let inbox = inbox.and_then(|name| channels.iter().position(|channel| *channel.name == *name));
        let (cache, renamed) = (NodeCache::default(), Vec::new());
        let inner = Program {
            spec,
            plan,
            nodes,
            routes,
            hooks,
            channels: channels.into(),
            initial,
            cache,
            renamed,
            is_agent,
            is_part,
            lenient,
            inbox,
            trust,
            questions,
            asked,
        };
        Self { inner: Arc::new(inner), attached: Attachments::default(), types: PhantomData }
    }

    /// Returns the graph without its checkpointer and store, to attach it to another graph.
    #[doc(hidden)]
    pub fn program(&self) -> &Arc<Program<S, C>> {
        &self.inner
    }

    /// Returns the nodes and edges of the graph as data.
    pub fn spec(&self) -> &GraphSpec {
        &self.inner.spec
    }

    /// Returns the names of the layers that the agent itself declares, outermost first. The list does not contain the
    /// layers that the agent inherits from its supervisor. Empty if the graph is not an agent.
    pub fn layers(&self) -> &[String] {
        &self.inner.hooks.layers
    }

    /// Sets the checkpointer, the saver that stores the checkpoints of each run. Each run then needs the id of a
    /// [thread](GraphRequest::thread).
    #[must_use]
    pub fn checkpointer(mut self, saver: impl Checkpointer) -> Self {
        self.attached.saver = Some(Saver::new(Arc::new(saver)));
        self
    }

    /// Sets the store, whose items all threads (conversations) share. Nodes access it with
    /// [`Run::store`](crate::Run::store).
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.attached.store = Some(Arc::new(store));
        self
    }

    /// Removes all cached results of the graph's own nodes, so that these nodes run again. Subgraphs keep theirs.
    pub fn clear_cache(&self) {
        self.inner.cache.clear();
    }
}

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    /// Declares an earlier name of the graph or a node. Runs can then resume threads that were stored under the earlier
    /// name. Exception: if a call of a renamed subgraph was interrupted without a question, the call starts again.
    #[must_use]
    pub fn renamed(self, old: impl Into<String>, new: impl Into<String>) -> Self {
        let Self { inner, attached, types } = self;
        let mut renamed = inner.renamed.clone();
        renamed.push((old.into(), new.into()));
        Self { inner: Arc::new(Program { renamed, ..Program::clone(&inner) }), attached, types }
    }

    /// Returns a request that runs the graph until the run finishes, asks a question, or is stopped. Await the request
    /// to start the run. Dropping the future cancels the run.
    ///
    /// The input is an update of the state, a whole state, or `()` to resume a thread. If the graph declares a view as
    /// `input:`, the input is this view instead of an update or a state. See [`GraphInput`](super::GraphInput) for all
    /// inputs.
    pub fn invoke(&self, input: impl GraphInput<S, I>) -> GraphRequest<Invoke<S, C, O>, NeedsContext<C>> {
        GraphRequest::new(Invoke::new(self.prepare(input)))
    }

    /// Returns a request that streams the events of a run. The request itself is a stream. Reading its first event
    /// starts the run.
    ///
    /// The run is a spawned tokio task, which a slow consumer does not delay. Dropping the stream cancels the run.
    pub fn stream(&self, input: impl GraphInput<S, I>) -> GraphRequest<Streaming<S, C, O>, NeedsContext<C>> {
        GraphRequest::new(Streaming::new(self.prepare(input)))
    }

    fn prepare(&self, input: impl GraphInput<S, I>) -> PreparedRun<S, C> {
        PreparedRun { program: self.inner.clone(), attached: self.attached.clone(), input: input.into_input() }
    }
}

impl<C, O> CompiledGraph<DynState, C, super::FullState, O> {
    /// Creates an update from a JSON object of channels.
    ///
    /// # Errors
    ///
    /// Fails for an unknown channel.
    pub fn update(&self, object: serde_json::Value) -> Result<DynUpdate, NodeError> {
        (self.inner.initial)().update(object)
    }
}
