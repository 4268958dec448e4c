//! Starts and ends runs: of a root, of a stream, of a subgraph.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::checkpoint::WhenRunning;
use crate::config::Config;
use crate::engine::durable::{check, due, inside};
use crate::engine::log::committer::Committer;
use crate::engine::log::renewal::Renewal;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Attachments, GraphOutput, Input, Program, Scope, Shared};
use crate::engine::run::runner::{End, Runner};
use crate::engine::run::{recall, resume};
use crate::engine::step::Breakpoints;
use crate::engine::stream::emitter::{CloseOnDrop, Emitter, EventSink, EventStream};
use crate::engine::stream::event::Modes;
use crate::engine::stream::outcome::{Interrupted, Outcome, Stopped};
use crate::engine::stream::ring::Ring;
use crate::error::RunError;
use crate::panics;
use crate::state::Values;

/// A graph and the input of one of its runs.
pub(crate) struct PreparedRun<S: Values, C> {
    pub(crate) program: Arc<Program<S, C>>,
    pub(crate) attached: Attachments,
    pub(crate) input: Input<S>,
}

/// Runs a graph to its end.
pub(crate) async fn run<S, C>(
    graph: Arc<Program<S, C>>,
    attached: Attachments,
    input: Input<S>,
    config: Arc<Config>,
    context: Arc<C>,
    emitter: Option<Arc<Emitter<S>>>,
) -> Result<Outcome<S>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    config.check()?;
    panics::note_places();
    let name = graph.plan.graph().to_owned();
    // The graph inside that the run addresses.
    let mut inner = None;
    let config = match attached.saver.as_ref().filter(|_| !config.namespace.is_empty()) {
        Some(saver) => {
            let outer = Box::pin(inside::outermost(&name, saver, &config, &input)).await?;
            inner = Some(config);
            Arc::new(outer)
        }
        None => config,
    };
    let cancel = config.cancel.clone();
    let span = span(&name, config.thread_id(), graph.is_agent);
    let state = Arc::new((graph.initial)());
    let tracker = TaskTracker::new();
    let mut shared = shared(&graph, context, config.clone(), Vec::new(), emitter.as_ref(), tracker.clone(), None);
    let committer = match &attached.saver {
        Some(saver) => {
            let admitted = Box::pin(admit(&graph, saver, (&config, inner.as_deref()), &input));
            Some(unless_cancelled(cancel.as_ref(), &name, admitted).await?)
        }
        None => None,
    };
    let mut renewal = match committer.as_deref() {
        Some(committer) => Box::pin(Renewal::start(committer)).await,
        None => None,
    };
    shared.log = committer.clone().map(|committer| Arc::new(TaskLog::new(committer, "".into())));
    shared.store = attached.store;
    let mut runner = Runner::new(graph, state, shared, emitter, false);
    let work = async {
        begin(&mut runner, committer.as_ref(), input).await?;
        runner.drive().await
    };
    let work = work.instrument(span);
    let work = until_lost(&name, renewal.as_mut(), work);
    let mut ended = unless_cancelled(cancel.as_ref(), &name, work).await;
    // Tasks that were cancelled, by the token or by a timeout, are still being dropped by the runtime.
    tracker.close();
    tracker.wait().await;
    if let Some(committer) = committer {
        ended = Box::pin(close(&mut runner, &committer, renewal, ended)).await;
    }
    conclude(runner, ended?)
}

/// The span of a run; of an agent's after OpenTelemetry's conventions for generative AI.
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

/// Begins a run: of a thread, where there is a saver.
async fn begin<S, C>(
    runner: &mut Runner<S, C>,
    committer: Option<&Arc<Committer>>,
    input: Input<S>,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    if let Some(committer) = committer {
        // Boxed: the future of a run without a saver stays small.
        return Box::pin(resume::open(runner, committer, input)).await;
    }
    runner.breakpoints = Breakpoints::configured(&runner.task.graph.plan, runner.task.run.config())?;
    let nothing = || RunError::EmptyInput { graph: runner.graph_name() };
    match input {
        Input::New(input) | Input::Whole(input) => runner.enter(input).await,
        Input::Continue => Err(nothing()),
        Input::Command(command) if command.answers.is_some() => {
            Err(RunError::NoCheckpointer { graph: runner.graph_name(), what: "go on with an answer" })
        }
        Input::Command(command) => {
            check::goes_nowhere(&runner.task.graph, &command)?;
            runner.enter(command.writes).await
        }
    }
}

/// Checks what the thread is given, and claims it. Whether the thread still stands in the graph inside that the run addresses is checked
/// again under the lease.
async fn admit<S, C>(
    graph: &Program<S, C>,
    saver: &Saver,
    (config, inner): (&Config, Option<&Config>),
    input: &Input<S>,
) -> Result<Arc<Committer>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    check::check_input(graph, saver, config, input).await?;
    // A run that is going is not ended by a click.
    let unless_said = match input {
        Input::New(_) | Input::Whole(_) | Input::Continue => WhenRunning::TakeOver,
        Input::Command(_) => WhenRunning::Reject,
    };
    let committer = claim(saver, config, unless_said, graph.plan.graph()).await?;
    if let Some(inner) = inner
        && let Err(refused) = inside::outermost(graph.plan.graph(), &committer.saver, inner, input).await
    {
        committer.release().await;
        return Err(refused);
    }
    Ok(committer)
}

/// Claims the thread that the configuration names.
pub(crate) async fn claim(
    saver: &Saver,
    config: &Config,
    unless_said: WhenRunning,
    graph: &str,
) -> Result<Arc<Committer>, RunError> {
    let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph.to_owned() })?;
    if saver.leases_expire() && Handle::try_current().is_ok() && !has_timers() {
        return Err(RunError::NoTimers { graph: graph.to_owned() });
    }
    let lease = saver.acquire(thread, config.claim(unless_said)).await;
    let lease = lease.map_err(|error| RunError::Saver { graph: graph.to_owned(), error })?;
    let driven = lease.driven;
    let committer = Committer::new(saver.clone(), lease, config.durability, graph);
    if driven {
        committer.waits();
    }
    Ok(Arc::new(committer))
}

/// Whether the runtime has timers. It tells only those who try one.
fn has_timers() -> bool {
    std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

/// Ends the work if somebody else has taken the thread, or nobody can keep the lease any more.
async fn until_lost<T>(
    graph: &str,
    renewal: Option<&mut Renewal>,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let Some(renewal) = renewal else { return work.await };
    let graph = || graph.to_owned();
    tokio::select! {
        biased;
        ended = work => ended,
        // Work that never waits uses up tokio's budget for its task.
        lost = unconstrained(renewal.lost()) => Err(match lost {
            Ok(error) => RunError::Saver { graph: graph(), error },
            Err(_) => RunError::NoRuntime { graph: graph() },
        }),
    }
}

/// Stores what is still to be stored, and releases the thread's lease.
async fn close<S, C>(
    runner: &mut Runner<S, C>,
    committer: &Committer,
    renewal: Option<Renewal>,
    ended: Result<End, RunError>,
) -> Result<End, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let stored = runner.store_held().await;
    let flushed = committer.flush().await.map_err(|error| RunError::Saver { graph: runner.graph_name(), error });
    if let Some(renewal) = renewal {
        renewal.end().await;
    }
    // If storing failed, the thread stays as if its process had been killed, and will be found as such.
    let is_lost = matches!(ended, Err(RunError::Saver { .. })) || stored.is_err() || flushed.is_err();
    if committer.has_waited() && !is_lost {
        // If this fails the thread is due as before, and whoever looks finds out: too often, and never too seldom.
        let now = runner.task.run.shared.config.now();
        if let Err(error) = due::settle(committer, &runner.task.graph.renamed, now).await {
            tracing::debug!(thread = %committer.lease.thread, %error, "cannot say when the thread is due next");
        }
    }
    if ended.is_ok() && stored.is_ok() && flushed.is_ok() {
        recall::keep(runner, committer);
    }
    committer.release().await;
    let ended = ended?;
    stored.and(flushed).map(|()| ended)
}

/// Does the work, unless the token is cancelled before it has ended.
async fn unless_cancelled<T>(
    cancel: Option<&CancellationToken>,
    graph: &str,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let Some(token) = cancel else { return work.await };
    // By reference: the token's future would hold the work twice.
    let ended = token.run_until_cancelled(std::pin::pin!(work)).await;
    ended.unwrap_or_else(|| Err(RunError::Cancelled { graph: graph.to_owned() }))
}

fn conclude<S, C>(runner: Runner<S, C>, end: End) -> Result<Outcome<S>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    Ok(match end {
        End::Finished => Outcome::Finished(runner.into_state()),
        End::Interrupted(questions) => {
            let resumable = runner.journal.is_some();
            if !resumable {
                tracing::warn!(
                    graph = runner.graph_name(),
                    "a node asks something, and the graph has no checkpointer: nobody can answer, give it one with `.checkpointer(…)`"
                );
            }
            Outcome::Interrupted(Interrupted { state: runner.into_state(), questions, resumable })
        }
        End::Stopped(reason) => {
            let next = runner.next();
            Outcome::Stopped(Stopped { state: runner.into_state(), reason, next })
        }
        End::Parent(node, _) => {
            return Err(RunError::Parent {
                graph: runner.graph_name(),
                node: runner.task.graph.plan.name(node).to_owned(),
                reason: "but this graph is the root and has none".to_owned(),
            });
        }
    })
}

/// Spawns a run and returns its events.
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
        let end = self::run(program, attached, input, config, context, Some(emitter)).await?;
        Ok(end.map(O::from_owned))
    });
    EventStream::new(name, ring, Ok(task))
}

/// The parts that all tasks of a run share.
pub(super) fn shared<S: Values, C>(
    graph: &Program<S, C>,
    context: Arc<C>,
    config: Arc<Config>,
    namespace: Vec<String>,
    emitter: Option<&Arc<Emitter<S>>>,
    tracker: TaskTracker,
    outer: Option<&Scope>,
) -> Shared<C> {
    let scope = graph.hooks.enter(outer, &context);
    let sink = emitter.map(|emitter| emitter.clone() as Arc<dyn EventSink>);
    let (plan, heartbeat, id) = (graph.plan.clone(), None, OnceLock::new());
    Shared {
        context,
        config,
        plan,
        namespace,
        sink,
        tracker,
        heartbeat,
        id,
        log: None,
        parents: None,
        store: None,
        steps: Arc::default(),
        home: None,
        anyone: None,
        personal: None,
        scope,
    }
}
