//! Requests: runs of a graph with their options, before they start.
//!
//! [`GraphRequest`] has the options of every run. Its first parameter is the kind of run, [`Invoke`] or [`Streaming`].
//! Its second parameter records if the run has a context. A request without the context that its graph needs is neither
//! a future nor a stream.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{BoxFuture, WhenRunning};
use crate::config::{Config, Durability, RunControl};
use crate::engine::program::{GraphOutput, Input};
use crate::engine::{self, Event, EventStream, Outcome, PreparedRun, StreamMode};
use crate::error::RunError;
use crate::state::Values;

/// The configuration of a run without options.
static DEFAULT_CONFIG: LazyLock<Arc<Config>> = LazyLock::new(Arc::default);

/// The context of a run of a graph without a context.
static NO_CONTEXT: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

/// A request for a run: its input and its options. The run has not started.
///
/// To start the run, await the request of [`CompiledGraph::invoke`](super::CompiledGraph::invoke). The request of
/// [`CompiledGraph::stream`](super::CompiledGraph::stream) is a stream: read its events. If the graph has a context,
/// call [`context`](Self::context) first.
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Filing { accepted: bool }
/// # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
/// # graph! { Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let out = Review::compile().invoke(Filing::update()).thread("case-17").recursion_limit(50).await?;
/// assert!(out.state().accepted);
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing until it is awaited or read as a stream"]
pub struct GraphRequest<K, X = NeedsContext<()>> {
    kind: K,
    /// None until an option is set.
    config: Option<Config>,
    context: X,
}

/// The kind of a request from [`CompiledGraph::invoke`](super::CompiledGraph::invoke), which runs a graph to its end.
pub struct Invoke<S: Values, C = (), O = S> {
    /// None once the run has started.
    run: Option<PreparedRun<S, C>>,
    running: Option<BoxFuture<'static, Result<Outcome<O>, RunError>>>,
}

/// The kind of a request from [`CompiledGraph::stream`](super::CompiledGraph::stream), which streams the events of a
/// run.
pub struct Streaming<S: Values, C = (), O = S> {
    run: PreparedRun<S, C>,
    modes: Vec<StreamMode>,
    /// None until the run starts.
    events: Option<EventStream<S, O>>,
}

/// The type state of a request that still needs a context of type `C`. Call [`GraphRequest::context`] to set the
/// context.
pub struct NeedsContext<C>(PhantomData<fn() -> C>);

/// The type state of a request that has its context.
pub struct WithContext<C>(Arc<C>);

/// The type state of a request: [`NeedsContext`] or [`WithContext`].
pub trait RequestContext {
    /// The type of the context.
    type Context;
}

/// The type state of a request that can start: [`WithContext`], or [`NeedsContext`] if the graph has no context.
#[diagnostic::on_unimplemented(
    message = "this run needs a context: `{Self}`",
    label = "the run has no context",
    note = "give it one with `.context(…)`, or give the compiled graph one with `.with_context(…)`"
)]
pub trait ReadyContext: RequestContext {
    /// Returns the context of the run.
    #[doc(hidden)]
    fn shared(&self) -> Arc<Self::Context>;
}

/// The kind of a request that the program awaits, such as [`Invoke`].
#[doc(hidden)]
pub trait RequestKind<C> {
    /// The value to which the request resolves.
    type Output;

    /// Returns the future of the run. The first call starts the run with the configuration and the context that
    /// `options` returns. Later calls return the same future and do not call `options`.
    fn started(&mut self, options: impl FnOnce() -> (Arc<Config>, Arc<C>)) -> &mut BoxFuture<'static, Self::Output>;
}

/// The kind of a request that the program reads as a stream, such as [`Streaming`].
#[doc(hidden)]
pub trait StreamKind<C> {
    /// The type of the stream of events.
    type Events;

    /// Sets the modes of the stream.
    fn set_modes(&mut self, modes: Vec<StreamMode>);

    /// Starts the run and returns its stream of events. If the run has already started, returns the existing stream.
    fn into_events(self, config: Arc<Config>, context: Arc<C>) -> Self::Events;
}

impl<C> RequestContext for NeedsContext<C> {
    type Context = C;
}

impl<C> RequestContext for WithContext<C> {
    type Context = C;
}

impl ReadyContext for NeedsContext<()> {
    fn shared(&self) -> Arc<()> {
        NO_CONTEXT.clone()
    }
}

impl<C> ReadyContext for WithContext<C> {
    fn shared(&self) -> Arc<C> {
        self.0.clone()
    }
}

impl<K, C> GraphRequest<K, NeedsContext<C>> {
    /// Creates a request of this kind with default options.
    #[doc(hidden)]
    pub fn new(kind: K) -> Self {
        Self { kind, config: None, context: NeedsContext(PhantomData) }
    }
}

impl<K, X: RequestContext> GraphRequest<K, X> {
    /// Sets the context of the run, which nodes read with [`Run::context`](crate::Run::context). Accepts a value or an
    /// [`Arc`].
    pub fn context(self, context: impl Into<Arc<X::Context>>) -> GraphRequest<K, WithContext<X::Context>> {
        GraphRequest { kind: self.kind, config: self.config, context: WithContext(context.into()) }
    }
}

/// Writes options of a request that [`Config`] has under the same names.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        pub fn $name(self, $($argument: $type),*) -> Self {
            self.set(|config| config.$name($($argument),*))
        }
    )*};
}

impl<K, X> GraphRequest<K, X> {
    fn set(mut self, change: impl FnOnce(Config) -> Config) -> Self {
        self.config = Some(change(self.config.unwrap_or_default()));
        self
    }

    fn shared_config(config: Option<Config>) -> Arc<Config> {
        config.map_or_else(|| DEFAULT_CONFIG.clone(), Arc::new)
    }

    /// Replaces all options with those in `config`.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    options! {
        /// Sets the id of the thread on which the run is stored. See [`Config::thread`].
        thread(id: impl Into<String>);
        /// Limits the number of supersteps. See [`Config::recursion_limit`].
        recursion_limit(limit: usize);
        /// Limits the number of tasks that run concurrently in a superstep. See [`Config::max_concurrency`].
        max_concurrency(tasks: usize);
        /// Sets a token that cancels the run. See [`Config::cancel`].
        cancel(token: CancellationToken);
        /// Sets a handle with which the program can stop the run between two supersteps. See [`Config::control`].
        control(control: RunControl);
        /// Selects the checkpoint from which the run continues, instead of the latest one. See [`Config::checkpoint`].
        checkpoint(id: Uuid);
        /// Selects a subgraph by its namespace. See [`Config::namespace`].
        namespace(namespace: impl Into<String>);
        /// Sets when checkpoints are stored. See [`Config::durability`].
        durability(durability: Durability);
        /// Sets the longest sleep for which the run keeps running. See [`Config::sleep_in_place`].
        sleep_in_place(at_most: Duration);
        /// Sets the time that the run uses as the current time, for tests. See [`Config::at`].
        at(now: SystemTime);
        /// Sets what happens if another run holds the thread. See [`Config::when_running`].
        when_running(when: WhenRunning);
        /// Sets the name of this run for error messages. See [`Config::holder`].
        holder(holder: impl Into<String>);
        /// Sets the time for which savers keep the thread after its last run. See [`Config::time_to_live`].
        time_to_live(time: Duration);
        /// Adds an entry to the metadata of each checkpoint of the run. See [`Config::metadata`].
        metadata(key: impl Into<String>, value: impl Into<Value>);
        /// Sets the id of the run. See [`Config::run_id`].
        run_id(id: impl Into<String>);
    }

    /// Sets breakpoints before these nodes. See [`Config::interrupt_before`].
    pub fn interrupt_before<N: Into<String>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.set(|config| config.interrupt_before(nodes))
    }

    /// Sets breakpoints after these nodes. See [`Config::interrupt_after`].
    pub fn interrupt_after<N: Into<String>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.set(|config| config.interrupt_after(nodes))
    }
}

impl<K, X> GraphRequest<K, X>
where
    X: RequestContext,
    K: StreamKind<X::Context>,
{
    /// Selects the kinds of events in the stream. Defaults to [`StreamMode::Updates`].
    pub fn modes(mut self, modes: impl IntoIterator<Item = StreamMode>) -> Self {
        self.kind.set_modes(modes.into_iter().collect());
        self
    }

    /// If `subgraphs` is true, adds the events of subgraphs to the stream. See [`Config::stream_subgraphs`].
    pub fn subgraphs(self, subgraphs: bool) -> Self {
        self.set(|config| config.stream_subgraphs(subgraphs))
    }

    /// Sets the number of events that the stream buffers for a slow consumer. See [`Config::stream_capacity`].
    pub fn stream_capacity(self, events: usize) -> Self {
        self.set(|config| config.stream_capacity(events))
    }

    /// Starts the run now and returns its stream of events. Without this call, the run starts when the first event is
    /// read.
    pub fn start(self) -> K::Events
    where
        X: ReadyContext,
    {
        self.kind.into_events(Self::shared_config(self.config), self.context.shared())
    }
}

/// A request implements `Future` instead of `IntoFuture`, so that the compiler reports a forgotten `.await`.
impl<K, X> Future for GraphRequest<K, X>
where
    X: ReadyContext,
    K: RequestKind<X::Context>,
{
    type Output = K::Output;

    fn poll(mut self: Pin<&mut Self>, waker: &mut Context<'_>) -> Poll<K::Output> {
        let Self { kind, config, context } = &mut *self;
        kind.started(|| (Self::shared_config(config.take()), context.shared())).as_mut().poll(waker)
    }
}

impl<S: Values, C, O> Invoke<S, C, O> {
    pub(crate) fn new(run: PreparedRun<S, C>) -> Self {
        Self { run: Some(run), running: None }
    }
}

impl<S, C, O> RequestKind<C> for Invoke<S, C, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    type Output = Result<Outcome<O>, RunError>;

    fn started(&mut self, options: impl FnOnce() -> (Arc<Config>, Arc<C>)) -> &mut BoxFuture<'static, Self::Output> {
        let Self { run, running } = self;
        running.get_or_insert_with(|| {
            let (run, (config, context)) = (run.take(), options());
            Box::pin(async move {
                // Only the first call of `started` creates this future, so `run` is always present.
                let Some(PreparedRun { program, attached, input }) = run else { return std::future::pending().await };
                engine::run(program, attached, input, config, context, None).await
            })
        })
    }
}

impl<S: Values, C, O> Streaming<S, C, O> {
    pub(crate) fn new(run: PreparedRun<S, C>) -> Self {
        Self { run, modes: vec![StreamMode::Updates], events: None }
    }
}

impl<S, C, O> StreamKind<C> for Streaming<S, C, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    type Events = EventStream<S, O>;

    fn set_modes(&mut self, modes: Vec<StreamMode>) {
        self.modes = modes;
    }

    fn into_events(self, config: Arc<Config>, context: Arc<C>) -> EventStream<S, O> {
        let Self { run, modes, events } = self;
        events.unwrap_or_else(|| engine::stream(run, config, context, modes.into_iter().collect()))
    }
}

impl<S, C, O, X> GraphRequest<Streaming<S, C, O>, X>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
    X: ReadyContext<Context = C>,
{
    /// Returns the stream of the run. The first call starts the run.
    fn started(&mut self) -> &mut EventStream<S, O> {
        let Self { kind: Streaming { run, modes, events }, config, context } = self;
        events.get_or_insert_with(|| {
            let PreparedRun { program, attached, input } = run;
            let input = std::mem::replace(input, Input::Continue);
            let run = PreparedRun { program: program.clone(), attached: attached.clone(), input };
            engine::stream(run, Self::shared_config(config.take()), context.shared(), modes.iter().copied().collect())
        })
    }

    /// Returns the next event, or `None` when the run has ended. The first call starts the run. Options that are set
    /// after the first call have no effect.
    ///
    /// Cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Event<S>, RunError>> {
        self.started().next().await
    }

    /// Runs the graph to its end and returns the outcome. Drops the events that were not read. Dropping the future
    /// cancels the run.
    pub async fn outcome(self) -> Result<Outcome<O>, RunError> {
        self.start().outcome().await
    }
}

impl<S, C, O, X> Stream for GraphRequest<Streaming<S, C, O>, X>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
    X: ReadyContext<Context = C>,
{
    type Item = Result<Event<S>, RunError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(self.started()).poll_next(context)
    }
}

/// No field is pinned.
impl<K, X> Unpin for GraphRequest<K, X> {}

impl<K, X> fmt::Debug for GraphRequest<K, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphRequest").field("config", &self.config).finish_non_exhaustive()
    }
}
