use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::config::Config;
use crate::engine::attempt::route::{type_code, type_future};
use crate::engine::durable::check;
use crate::engine::program::{
    Attachments, BackgroundRuns, GraphContext, GraphOutput, Input, Program, RunShared, Scope, SecretChannel, Task,
};
use crate::engine::run::lease::{RootConfig, ThreadLease, claim_for};
use crate::engine::run::resume::open_thread;
use crate::engine::run::runner::{GraphEnd, GraphRunner};
use crate::engine::stream::emitter::{CloseOnDrop, Emitter, EventSink, EventStream};
use crate::engine::stream::event::Modes;
use crate::engine::stream::outcome::{Interrupted, Outcome, Stopped};
use crate::engine::stream::ring::Ring;
use crate::error::RunError;
use crate::panics;
use crate::state::{Values, Writes, check_outside};

pub(crate) struct PreparedRun<S: Values, C> {
    pub(crate) program: Arc<Program<S, C>>,
    pub(crate) attached: Attachments,
    pub(crate) input: Input<S>,
}

pub(super) struct RootRun<S: Values, C> {
    pub(super) graph: Arc<Program<S, C>>,
    pub(super) attached: Attachments,
    pub(super) config: Arc<Config>,
    pub(super) context: Arc<C>,
    pub(super) emitter: Option<Arc<Emitter<S>>>,
    /// The state in which a new thread begins. A stored thread takes the values of channels that are never stored from
    /// this state.
    pub(super) state: Arc<S>,
    /// The value from the graph that started the run. None for a run that the program started.
    pub(super) scope: Option<Scope>,
}

pub(crate) async fn run<S: Values, C: GraphContext, O: GraphOutput<S>>(
    graph: Arc<Program<S, C>>,
    attached: Attachments,
    input: Input<S>,
    config: Arc<Config>,
    context: Arc<C>,
    emitter: Option<Arc<Emitter<S>>>,
) -> Result<Outcome<O>, RunError> {
    let program = graph.clone();
    let state = type_code(&graph, || Arc::new((graph.initial)()))?;
    let ended = RootRun { graph, attached, config, context, emitter, state, scope: None }.run(input).await?;
    type_code(&program, || ended.map(O::from_owned))
}

impl<S: Values, C: GraphContext> RootRun<S, C> {
    /// Runs the graph. The caller sees no panic of the state's types, also not while the run is dropped.
    pub(super) async fn run(self, input: Input<S>) -> Result<Outcome<S>, RunError> {
        let graph = self.graph.clone();
        type_future(&graph, pin!(self.run_to_end(input))).await
    }

    async fn run_to_end(self, input: Input<S>) -> Result<Outcome<S>, RunError> {
        let Self { graph, attached, config, context, emitter, state, scope } = self;
        config.check()?;
        panics::note_places();
        let name = graph.plan.graph().to_owned();
        let written = match &input {
            Input::New(writes) | Input::Whole(writes) => writes,
            Input::Command(command) => &command.writes,
            Input::Continue | Input::Enter => &Writes::new(),
        };
        check_outside(&name, &*state, written)?;
        if let Some(saver) = &attached.saver {
            SecretChannel::check(graph.secret_channels(), saver)?;
        }
        let root = RootConfig::resolve(&name, attached.saver.as_ref(), config, &input).await?;
        let cancel = root.config.cancel.clone();
        let span = span(&name, root.config.thread_id(), graph.is_agent);
        let tracker = TaskTracker::new();
        let background = Arc::new(BackgroundRuns::new(attached.clone()));
        let mut shared = RunShared::new(graph.plan.clone(), context, root.config.clone(), tracker.clone());
        shared.scope = graph.hooks.enter(scope.as_ref(), &shared.context);
        shared.background = background.clone();
        shared.sink = emitter.clone().map(|emitter| emitter as Arc<dyn EventSink>);
        shared.store = attached.store;
        let mut lease = match &attached.saver {
            Some(saver) => {
                let claimed = Box::pin(claim_for(&graph, saver, &root, &input));
                let committer = unless_cancelled(cancel.as_ref(), &name, claimed).await?;
                Some(Box::pin(ThreadLease::hold(committer)).await)
            }
            None => None,
        };
        let log = lease.as_ref().map(|lease| lease.log.clone());
        shared.log.clone_from(&log);
        let mut runner = GraphRunner::new(graph.clone(), state, shared, emitter, false);
        let work = async {
            match log {
                // Boxed, so that the future of a run without a saver stays small.
                Some(log) => Box::pin(open_thread(&mut runner, log, input)).await?,
                None => begin_without_thread(&mut runner, input).await?,
            }
            runner.drive().await
        };
        let mut ended = {
            let mut work = Box::pin(work.instrument(span));
            let driven = type_future(&graph, work.as_mut());
            let driven = async {
                match &mut lease {
                    Some(lease) => lease.until_lost(&name, driven).await,
                    None => driven.await,
                }
            };
            let ended = unless_cancelled(cancel.as_ref(), &name, driven).await;
            // Dropped here, because a panic of a node that is dropped must not skip the end of the run.
            let _ = panics::catch(|| drop(work));
            ended
        };
        background.stop_within(&[], false);
        // Waits until the runtime has dropped all tasks that were cancelled, by the token or by a timeout.
        tracker.close();
        tracker.wait().await;
        if let Err(RunError::TypePanicked { what, .. }) = &mut ended {
            runner.name_panicking_channel(what);
        }
        if let Some(lease) = lease {
            ended = Box::pin(lease.close(&mut runner, ended)).await;
        }
        let error = match ended {
            Ok(end) => return outcome(runner, end),
            Err(error) => error,
        };
        // If a value panics when it is dropped, the caller still receives the error of the run.
        let _ = panics::catch(|| drop(runner));
        Err(error)
    }
}

impl<S: Values, C> GraphRunner<S, C> {
    /// If the value of a channel panics when it is cloned or its clone is dropped, sets `what` to this channel.
    fn name_panicking_channel(&self, what: &mut String) {
        let Task { graph, state, .. } = &self.task;
        let copies = |channel: usize| {
            let mut copy = (graph.initial)();
            state.get_any(channel).into_iter().for_each(|value| copy.set_any(channel, value));
        };
        let found = graph.channels.iter().enumerate().find(|(channel, _)| panics::catch(|| copies(*channel)).is_err());
        if let Some((_, spec)) = found.filter(|_| panics::catch(|| drop((graph.initial)())).is_ok()) {
            *what = format!("channel `{}`", spec.name);
        }
    }
}

/// The span of a run. An agent's span follows the OpenTelemetry conventions for generative AI.
fn span(graph: &str, thread: Option<&str>, is_agent: bool) -> Span {
    if !is_agent {
        return tracing::info_span!("run", graph, thread);
    }
    tracing::info_span!(
        "run",
        otel.name = format_args!("invoke_agent {graph}"),
        graph,
        thread,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = graph,
        gen_ai.conversation.id = thread,
    )
}

async fn begin_without_thread<S: Values, C: GraphContext>(
    runner: &mut GraphRunner<S, C>,
    input: Input<S>,
) -> Result<(), RunError> {
    runner.configure_breakpoints()?;
    match input {
        Input::New(input) | Input::Whole(input) => runner.begin(input).await,
        Input::Enter => runner.begin(Writes::new()).await,
        Input::Command(command) if command.answers.is_some() => {
            Err(RunError::NoCheckpointer { graph: runner.graph_name(), what: "continue a run with an answer" })
        }
        Input::Command(command) if check::is_input(&command) => {
            check::check_targets(&runner.task.graph, &command)?;
            runner.begin(command.writes).await
        }
        Input::Continue | Input::Command(_) => Err(RunError::EmptyInput { graph: runner.graph_name() }),
    }
}

async fn unless_cancelled<T>(
    cancel: Option<&CancellationToken>,
    graph: &str,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let Some(token) = cancel else { return work.await };
    // Passed by reference, because the future of the token would contain the work twice.
    let ended = token.run_until_cancelled(std::pin::pin!(work)).await;
    ended.unwrap_or_else(|| Err(RunError::Cancelled { graph: graph.to_owned() }))
}

fn outcome<S: Values, C: GraphContext>(runner: GraphRunner<S, C>, end: GraphEnd) -> Result<Outcome<S>, RunError> {
    Ok(match end {
        GraphEnd::Finished => Outcome::Finished(runner.into_state()),
        GraphEnd::Interrupted(questions) => {
            let resumable = runner.journal.is_some();
            if !resumable {
                tracing::warn!(
                    graph = runner.graph_name(),
                    "a node asked a question, but the graph has no checkpointer, so it cannot be answered: add `.checkpointer(…)`"
                );
            }
            Outcome::Interrupted(Interrupted { state: runner.into_state(), questions, resumable })
        }
        GraphEnd::Stopped(reason) => {
            let next = runner.next();
            Outcome::Stopped(Stopped { state: runner.into_state(), reason, next })
        }
        GraphEnd::Parent(node, _) => {
            return Err(RunError::Parent {
                graph: runner.graph_name(),
                node: runner.task.graph.plan.name(node).to_owned(),
                reason: "but the graph is the root and has no parent".to_owned(),
            });
        }
    })
}

/// Runs a graph as a separate task, and returns the stream of its events.
pub(crate) fn stream<S, C, O>(
    run: PreparedRun<S, C>,
    config: Arc<Config>,
    context: Arc<C>,
    modes: Modes,
) -> EventStream<S, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    let PreparedRun { program, attached, input } = run;
    let name = program.plan.graph().to_owned();
    let ring: Arc<Ring<S>> = Arc::new(Ring::new(config.stream_capacity));
    let Ok(runtime) = Handle::try_current() else {
        return EventStream::new(name.clone(), ring, Err(RunError::NoRuntime { graph: name }));
    };
    let emitter = Arc::new(Emitter::root(ring.clone(), modes, config.stream_subgraphs));
    let close = CloseOnDrop(ring.clone());
    let task = runtime.spawn(async move {
        let _close = close;
        self::run(program, attached, input, config, context, Some(emitter)).await
    });
    EventStream::new(name, ring, Ok(task))
}
