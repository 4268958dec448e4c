//! Subgraphs: graphs as nodes of other graphs. A subgraph shares channels by name, has its own supersteps, and returns
//! its writes.

use std::any::Any;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use hier_spec::trust::{CHANNEL, CONVERSATION, TrustLabels};
use serde_json::Value;

use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, codec};
use crate::engine::attempt::route::merge;
use crate::engine::durable::segment::segment_of_task;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{
    Attached, Checkpoints, ErasedGraph, GraphContext, NodeResult, Output, Prepare, Program, RunShared, SendArg,
    Subgraph, Task,
};
use crate::engine::run::resume_subgraph;
use crate::engine::run::runner::{GraphEnd, GraphRunner};
use crate::engine::stream::emitter::{Emitter, EventSink, PartSink};
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::state::{ChannelWrite, DynState, Update, Values, Writes, encode_readable, secret};

impl<S, C, T, D> Subgraph<S, C> for Attached<T, C, D>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> {
        Box::pin(async move {
            let context = (self.context)(&task.run.shared.context);
            let mut runner = open_child(&self.graph, self.entry(task)?, context, task).await?;
            self.begin(&mut runner, task).await?;
            let labels = self.unrecorded_labels().and_then(|labels| labels_write(labels, task.state()));
            let leave = |_: &T, returned| {
                let mut writes = self.hand_back(task, returned);
                if let Some(write) = labels {
                    writes.push(write);
                }
                writes
            };
            self.finish(&mut runner, task, |_| true, leave).await
        })
    }

    fn asks_model(&self) -> bool {
        self.graph.asks_model()
    }

    fn erased(&self) -> &dyn ErasedGraph {
        &*self.graph
    }

    fn prepare(&self) -> Option<Prepare<S>> {
        let prepare = self.graph.hooks.prepare.as_ref().filter(|_| self.graph.is_part)?;
        (prepare as &dyn Any).downcast_ref::<Prepare<S>>().cloned()
    }

    fn takes_state(&self) -> bool {
        true
    }

    fn pack(&self, arg: &SendArg) -> Option<Result<Vec<u8>, CodecError>> {
        arg.get::<T>().map(|state| self.pack_state(state))
    }
}

impl<T: Values, C, D: Send + Sync + 'static> Attached<T, C, D> {
    /// Runs the subgraph from this state to its end, as the work of `task`. `returned` marks the channels of the
    /// subgraph whose writes the outer graph receives. The function `leave` receives the final state and these writes,
    /// and returns the writes of the outer graph.
    pub async fn call<S>(
        &self,
        task: &Task<S, C>,
        state: Arc<T>,
        returned: &Arc<[bool]>,
        leave: impl FnOnce(&T, Vec<T::Write>) -> Writes<S>,
    ) -> NodeResult<S>
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let context = (self.context)(task.run().shared_context());
        let mut runner = open_child(&self.graph, state, context, task).await?;
        runner.return_only(returned);
        self.begin(&mut runner, task).await?;
        self.finish(&mut runner, task, |channel| returned[channel], leave).await
    }

    async fn begin<S>(&self, runner: &mut GraphRunner<T, D>, task: &Task<S, C>) -> Result<(), NodeError>
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let input = self.input(task, runner)?;
        runner.begin_child(task, input).await
    }

    /// Runs the inner graph to its end, and leaves it. The writes of `on_exit` reach the outer graph even if `leave`
    /// drops other writes, but without values that the outer graph does not receive.
    async fn finish<S>(
        &self,
        runner: &mut GraphRunner<T, D>,
        task: &Task<S, C>,
        is_returned: impl Fn(usize) -> bool,
        leave: impl FnOnce(&T, Vec<T::Write>) -> Writes<S>,
    ) -> NodeResult<S>
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let mut is_finished = false;
        let leave = |end: &T, mut returned| {
            is_finished = true;
            self.make_whole(task, end, &mut returned)?;
            Ok(leave(end, returned))
        };
        let Output { mut writes, gotos } = finish_child(runner, task, leave).await?;
        let is_whole = |channel| is_finished && is_returned(channel) && self.merges_alone(task, channel);
        let left = runner.leaving().await?.into_iter();
        let (mut whole, left): (Vec<_>, Vec<_>) = left.partition(|write| is_whole(write.channel()));
        for write in &whole {
            merge(Arc::make_mut(&mut runner.task.state), write)?;
        }
        self.make_whole(task, &runner.task.state, &mut whole)?;
        self.hand_back(task, whole.into_iter().chain(left)).into_iter().for_each(|write| writes.push(write));
        Ok(Output { writes, gotos })
    }
}

impl<T: Values, C, D> Attached<T, C, D> {
    fn shared(&self, outer: &[ChannelSpec]) -> &[Option<usize>] {
        self.shares.get_or_init(|| {
            let inner = self.graph.channels.iter();
            inner.map(|channel| outer.iter().position(|other| other.name == channel.name)).collect()
        })
    }

    /// Returns the labels of the text that the graph may add to a shared conversation without recording the labels.
    fn unrecorded_labels(&self) -> Option<TrustLabels> {
        let has = |name: &str| self.graph.channels.iter().any(|channel| channel.name == name);
        (has(CONVERSATION) && !has(CHANNEL)).then(|| self.graph.trust.read.read())
    }

    /// Encodes a state that a Send passes to the inner graph, as an object of channels.
    fn pack_state(&self, state: &T) -> Result<Vec<u8>, CodecError> {
        let mut fields = Vec::new();
        for (channel, spec) in self.graph.channels.iter().enumerate() {
            let Some(value) = state.stored(channel) else { continue };
            let mut bytes = Vec::new();
            encode_readable(value, &mut bytes, &mut false).map_err(|error| {
                CodecError::new(format!("channel `{}`: {}", spec.name, secret::unfit(spec.secret, error)))
            })?;
            fields.push((&*spec.name, bytes));
        }
        codec::pack_fields(&fields)
    }

    /// Returns the initial state of the inner graph: the payload of a Send, or the shared channels of the outer state.
    fn entry<S: Values>(&self, task: &Task<S, C>) -> Result<Arc<T>, NodeError> {
        if let Some(arg) = &task.arg {
            return self.unpack(arg);
        }
        Ok(self.inherit(task))
    }

    /// Returns the initial state of the subgraph: the values of shared channels from the outer state, and initial
    /// values for other channels.
    #[doc(hidden)]
    pub fn inherit<S: Values>(&self, task: &Task<S, C>) -> Arc<T> {
        let whole: Arc<dyn Any + Send + Sync> = task.state.clone();
        // Dynamic states have one type, but not always the same channels.
        if let Ok(same) = whole.downcast::<T>()
            && (!T::IS_DYNAMIC || (self.graph.initial)().has_channels_of(&same))
        {
            return same;
        }
        let mut state = (self.graph.initial)();
        for (inner, outer) in self.shared(&task.graph.channels).iter().enumerate() {
            if let Some(value) = outer.and_then(|outer| task.state().get_any(outer)) {
                state.set_any(inner, value);
            }
        }
        Arc::new(state)
    }

    /// Returns the input of a subgraph with checkpoints per thread. The input merges the shared channels, or the payload
    /// of a Send, into the state of earlier calls. Other subgraphs have an empty input.
    fn input<S: Values>(&self, task: &Task<S, C>, runner: &GraphRunner<T, D>) -> Result<Writes<T>, NodeError> {
        if task.subgraph_checkpoints() != Checkpoints::PerThread {
            return Ok(Writes::new());
        }
        let channels = self.shared(&task.graph.channels).iter().enumerate();
        let passed = channels.filter(|(_, outer)| outer.is_some() || task.arg.is_some());
        let writes = passed.filter_map(|(channel, _)| write_of(&*runner.task.state, channel).transpose());
        writes.collect()
    }

    /// Returns true if the subgraph merges the writes of a shared channel, but the outer graph keeps only the last one.
    fn merges_alone<S: Values>(&self, task: &Task<S, C>, channel: usize) -> bool {
        let (inner, outer) = (self.graph.channels[channel].kind, &task.graph.channels);
        !inner.single_writer() && self.shared(outer)[channel].is_some_and(|shared| outer[shared].kind.single_writer())
    }

    /// Replaces writes by the final value of their channel if only the subgraph merges the channel.
    fn make_whole<S: Values>(&self, task: &Task<S, C>, end: &T, writes: &mut Vec<T::Write>) -> Result<(), NodeError> {
        for channel in 0..self.graph.channels.len() {
            if self.merges_alone(task, channel) && writes.iter().any(|write| write.channel() == channel) {
                writes.retain(|write| write.channel() != channel);
                writes.extend(write_of(end, channel)?);
            }
        }
        Ok(())
    }

    /// Decodes the payload of a Send to a state. A dynamic state takes an object, and merges the channels that it has.
    fn unpack(&self, arg: &SendArg) -> Result<Arc<T>, NodeError> {
        if let Some(state) = arg.get::<T>() {
            return Ok(Arc::new(state.clone()));
        }
        let mut state = (self.graph.initial)();
        if arg.is_stored() && !(&state as &dyn Any).is::<DynState>() {
            self.unpack_stored(&mut state, &arg.encode()?)?;
            return Ok(Arc::new(state));
        }
        let dynamic = (&mut state as &mut dyn Any).downcast_mut::<DynState>();
        let Some((dynamic, object)) = dynamic.zip(arg.to_json()?.as_object().cloned()) else {
            let (wanted, sent) = (std::any::type_name::<T>(), arg.type_name());
            return Err(NodeError::permanent(format!(
                "the node is a graph over `{wanted}`, but a Send passed it a `{sent}`: send a `{wanted}`"
            )));
        };
        let known = object.into_iter().filter(|(name, _)| dynamic.schema().find(name).is_some()).collect();
        for write in dynamic.update(Value::Object(known))?.into_writes() {
            dynamic.reduce(write).map_err(|error| NodeError::permanent(error.to_string()))?;
        }
        Ok(Arc::new(state))
    }

    /// Decodes a stored state, which is an object of channels by name.
    fn unpack_stored(&self, state: &mut T, stored: &[u8]) -> Result<(), NodeError> {
        let unfit = |reason: String| {
            let graph = self.graph.plan.graph();
            NodeError::permanent(format!(
                "the stored state that was sent to graph `{graph}` does not fit this program: {reason}; finish the \
                 thread's superstep with the program that began it"
            ))
        };
        let stored = codec::unpack_fields(stored)?;
        for (name, value) in stored.ok_or_else(|| unfit("it is not an object of channels".to_owned()))? {
            let channel = self.graph.channels.iter().position(|spec| spec.name == *name);
            let channel = channel.ok_or_else(|| unfit(format!("there is no channel `{name}`")))?;
            let loaded = state.load(channel, &value);
            loaded.map_err(|error| unfit(format!("channel `{name}`: {error}")))?;
        }
        Ok(())
    }

    /// Converts `returned`, the writes of the subgraph, to writes of the outer graph. Drops the writes to channels that
    /// the outer graph does not have.
    #[doc(hidden)]
    pub fn hand_back<S: Values>(&self, task: &Task<S, C>, returned: impl IntoIterator<Item = T::Write>) -> Writes<S> {
        let mut writes = Writes::new();
        let shares = self.shared(&task.graph.channels);
        for write in returned {
            if let Some(outer) = shares[write.channel()]
                && let Some(write) = S::Write::from_any(outer, &task.graph.channels[outer], write.into_any())
            {
                writes.push(write);
            }
        }
        writes
    }
}

/// Returns a write of a channel's value. Returns `None` if the channel has no value.
fn write_of<T: Values>(state: &T, channel: usize) -> Result<Option<T::Write>, NodeError> {
    let Some(value) = state.stored(channel) else { return Ok(None) };
    let mut bytes = Vec::new();
    value.encode(&mut bytes)?;
    Ok(Some(state.write_from(channel, false, &bytes)?))
}

/// Opens a run of an inner graph as part of a task of the outer graph.
async fn open_child<S: Values, C: GraphContext, T: Values, D: GraphContext>(
    graph: &Arc<Program<T, D>>,
    state: Arc<T>,
    context: Arc<D>,
    task: &Task<S, C>,
) -> Result<GraphRunner<T, D>, NodeError> {
    let outer = &task.run.shared;
    let mut namespace = outer.namespace.clone();
    namespace.push(segment_of_task(task).await.map_err(subgraph_error)?);
    let emitter = outer.sink.as_deref().and_then(EventSink::for_subgraphs);
    let emitter = emitter.map(|(root, modes)| Arc::new(Emitter::nested(root, modes, namespace.clone())));
    let mut shared = RunShared::new(graph.plan.clone(), context, outer.config.clone(), outer.tracker.clone());
    shared.scope = graph.hooks.enter(outer.scope.as_ref(), &shared.context);
    shared.namespace = namespace;
    shared.sink = emitter.clone().map(|emitter| emitter as Arc<dyn EventSink>);
    if graph.is_part
        && let Some(outer) = &outer.sink
    {
        shared.sink = Some(Arc::new(PartSink { own: shared.sink.take(), outer: outer.clone() }));
    }
    shared.background.clone_from(&outer.background);
    shared.heartbeat = task.run.any_heartbeat().cloned();
    shared.store.clone_from(&outer.store);
    shared.taint = task.run.taint.clone().or_else(|| outer.taint.clone());
    shared.unaddressed = task.run.resume.as_ref().and_then(|resume| resume.unaddressed.clone());
    if let Some(log) = outer.log.as_ref().filter(|_| task.subgraph_checkpoints() != Checkpoints::None) {
        let namespace = shared.namespace.join("|").into();
        shared.log = Some(Arc::new(TaskLog::new(log.committer.clone(), namespace)));
        let mut parents = outer.parents.as_ref().map(|parents| (**parents).clone()).unwrap_or_default();
        parents.extend(task.run.base.map(|base| (outer.namespace.join("|"), base)));
        shared.parents = Some(Arc::new(parents));
    } else {
        shared.home = task.run.step_home()?.map(|home| Arc::new(home.of_graph()));
    }
    Ok(GraphRunner::new(graph.clone(), state, shared, emitter, true))
}

impl<T: Values, D: Send + Sync + 'static> GraphRunner<T, D> {
    /// Limits the writes that the inner graph returns to these channels.
    pub(crate) fn return_only(&mut self, channels: &Arc<[bool]>) {
        self.position.return_only(channels);
    }

    /// Begins the inner graph, or continues it where it stopped.
    pub(crate) async fn begin_child<S, C>(&mut self, task: &Task<S, C>, input: Writes<T>) -> Result<(), NodeError>
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let begun = match self.task.run.shared.log.clone() {
            None => self.begin(input).await,
            // Boxed, so that the future of a subgraph without a saver stays small.
            Some(log) => Box::pin(resume_subgraph::open_call(self, task, input, log)).await,
        };
        begun.map_err(subgraph_error)
    }
}

/// The background runs that a graph and its subgraphs have started. They stop when the graph ends or is dropped.
struct StartedInBackground<D>(Arc<RunShared<D>>);

impl<D> Drop for StartedInBackground<D> {
    fn drop(&mut self) {
        let is_given_up = self.0.heartbeat.as_ref().and_then(|heartbeat| heartbeat.gave_up()).unwrap_or(false);
        self.0.background.stop_within(&self.0.namespace, is_given_up);
    }
}

/// Runs an inner graph to its end, as a task of the outer graph.
pub(crate) async fn finish_child<S: Values, C: GraphContext, T: Values, D: GraphContext>(
    runner: &mut GraphRunner<T, D>,
    task: &Task<S, C>,
    leave: impl FnOnce(&T, Vec<T::Write>) -> Result<Writes<S>, NodeError>,
) -> NodeResult<S> {
    let started = StartedInBackground(runner.task.run.shared.clone());
    let end = runner.drive().await;
    drop(started);
    resume_subgraph::close_call(runner, task, &end).await.map_err(subgraph_error)?;
    match end.map_err(subgraph_error)? {
        // A breakpoint in a subgraph also stops the outer graphs.
        GraphEnd::Stopped(_) => Err(NodeError::from_kind(NodeErrorKind::Interrupt(Vec::new()), false)),
        GraphEnd::Finished => {
            let graph = runner.task.graph.clone();
            let returned = runner.position.take_returned(&graph.channels);
            let writes = leave(&runner.task.state, returned)?;
            Ok(Output { writes, gotos: None })
        }
        GraphEnd::Interrupted(mut questions) => {
            for question in &mut questions {
                question.path.insert(0, task.run.node().to_owned());
            }
            Err(NodeError::from_kind(NodeErrorKind::Interrupt(questions), false))
        }
        GraphEnd::Parent(node, command) => {
            let reason = format!(
                "but the command writes the state `{}`, and the state of the parent is `{}`",
                command.state_name(),
                std::any::type_name::<S>()
            );
            let (graph, node) = (runner.graph_name(), runner.task.graph.plan.name(node).to_owned());
            let wrong = || subgraph_error(RunError::Parent { graph, node, reason });
            let mut output = *command.into_any().downcast::<Output<S>>().map_err(|_| wrong())?;
            // The command may contain any data that the graph has read.
            let labels = labels_write(runner.task.graph.trust.read.read(), task.state());
            if let Some(write) = labels {
                output.writes.push(write);
            }
            Ok(output)
        }
    }
}

/// Returns the write that adds these labels to the state's record of a conversation. Returns `None` if the state has no
/// such record.
fn labels_write<S: Values>(labels: TrustLabels, state: &S) -> Option<S::Write> {
    if labels.is_empty() {
        return None;
    }
    let channel = (0..).map_while(|index| state.channel(index)).position(|spec| spec.name == CHANNEL)?;
    let value = codec::encode(&labels.names().collect::<Vec<_>>()).ok()?;
    state.write_from(channel, false, &value).ok()
}

pub(super) fn subgraph_error(error: RunError) -> NodeError {
    if let RunError::Saver { error, .. } = error {
        return NodeError::from_kind(NodeErrorKind::Saver(error), false);
    }
    let transient = match error.root() {
        RunError::Node { error, .. } => error.is_transient(),
        _ => false,
    };
    NodeError::from_kind(NodeErrorKind::Subgraph(Box::new(error)), transient)
}
