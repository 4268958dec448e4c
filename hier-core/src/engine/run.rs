//! Starts and ends runs: of a root, of a stream, of a subgraph.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::crew::Crew;
use super::event::{Event, Modes};
use super::outcome::{Interrupted, Outcome, Stopped};
use super::runner::{End, Runner};
use super::stream::{CloseOnDrop, Emitter, EventStream, Outlet, Ring};
use crate::config::Config;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::graph::{GraphOutput, Inner, NodeResult, Output, Task};
use crate::run::Shared;
use crate::state::{Values, Writes};

/// Runs a graph to its end.
pub(crate) async fn run<S, C>(
    graph: Arc<Inner<S, C>>,
    input: Option<Writes<S>>,
    config: Arc<Config>,
    context: Arc<C>,
    emitter: Option<Arc<Emitter<S>>>,
) -> Result<Outcome<S>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    config.check()?;
    let name = graph.plan.graph().to_owned();
    let Some(input) = input else { return Err(RunError::EmptyInput { graph: name }) };
    let cancel = config.cancel.clone();
    let span = tracing::info_span!("run", graph = %name, thread = config.thread_id());
    let state = Arc::new((graph.initial)());
    let crew = Arc::new(Crew::default());
    let shared = shared(&graph, context, config, Vec::new(), emitter.as_ref(), crew.clone());
    let mut runner = Runner::new(graph, state, shared, emitter, false);
    let work = async {
        runner.begin(input)?;
        let end = runner.drive().await?;
        conclude(runner, end)
    };
    let work = work.instrument(span);
    let ended = match cancel {
        None => work.await,
        Some(token) => until_cancelled(&token, work).await.unwrap_or(Err(RunError::Cancelled { graph: name })),
    };
    // Tasks that were cancelled, by the token or by a timeout, are still being dropped by the runtime.
    crew.gone().await;
    ended
}

async fn until_cancelled<T>(token: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    token.run_until_cancelled(work).await
}

fn conclude<S, C>(runner: Runner<S, C>, end: End) -> Result<Outcome<S>, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    Ok(match end {
        End::Finished => Outcome::Finished(runner.into_state()),
        End::Interrupted(questions) => Outcome::Interrupted(Interrupted { state: runner.into_state(), questions }),
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

/// Runs a graph as a task of its own and hands over its events.
pub(crate) fn stream<S, C, O>(
    graph: Arc<Inner<S, C>>,
    input: Option<Writes<S>>,
    config: Config,
    context: C,
    modes: Modes,
) -> EventStream<S, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    let name = graph.plan.graph().to_owned();
    let ring: Arc<Ring<Event<S>>> = Arc::new(Ring::new(config.stream_capacity));
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return EventStream::new(name.clone(), ring, Err(RunError::NoRuntime { graph: name }));
    };
    let emitter = Arc::new(Emitter::root(ring.clone(), modes, config.stream_subgraphs));
    let close = CloseOnDrop(ring.clone());
    let task = runtime.spawn(async move {
        let _close = close;
        let end = run(graph, input, Arc::new(config), Arc::new(context), Some(emitter)).await?;
        Ok(end.map(O::from_owned))
    });
    EventStream::new(name, ring, Ok(task))
}

/// Starts a run of an inner graph as part of a task of the outer one.
pub(crate) fn start<S, C, T, D>(
    graph: &Arc<Inner<T, D>>,
    state: Arc<T>,
    context: Arc<D>,
    task: &Task<S, C>,
) -> Result<Runner<T, D>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    let outer = &task.run.shared;
    let mut namespace = outer.namespace.clone();
    namespace.push(format!("{}:{}", task.run.node(), task.run.task_id()));
    let emitter = outer.outlet.as_deref().and_then(Outlet::for_subgraphs);
    let emitter = emitter.map(|(root, modes)| Arc::new(Emitter::nested(root, modes, namespace.clone())));
    let mut shared = shared(graph, context, outer.config.clone(), namespace, emitter.as_ref(), outer.crew.clone());
    shared.heartbeat = task.run.any_heartbeat().cloned();
    let mut runner = Runner::new(graph.clone(), state, shared, emitter, true);
    runner.begin(Writes::new()).map_err(subgraph_error)?;
    Ok(runner)
}

/// Runs an inner graph to its end, as a task of the outer one.
pub(crate) async fn finish_child<S, C, T, D>(
    runner: &mut Runner<T, D>,
    task: &Task<S, C>,
    hand_back: impl FnOnce(Vec<T::Write>) -> Writes<S>,
) -> NodeResult<S>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    match runner.drive().await.map_err(subgraph_error)? {
        End::Finished | End::Stopped(_) => {
            let graph = runner.task.graph.clone();
            let writes = hand_back(runner.ledger.returned(&graph.channels));
            Ok(Output { writes, orders: None })
        }
        End::Interrupted(mut questions) => {
            for question in &mut questions {
                question.path.insert(0, task.run.node().to_owned());
            }
            Err(NodeError::from_kind(NodeErrorKind::Interrupt(questions), false))
        }
        End::Parent(node, command) => {
            let reason = format!(
                "whose state is `{}`, but the command writes a `{}`",
                std::any::type_name::<S>(),
                command.state_name()
            );
            let (graph, node) = (runner.graph_name(), runner.task.graph.plan.name(node).to_owned());
            let wrong = || subgraph_error(RunError::Parent { graph, node, reason });
            command.into_any().downcast::<Output<S>>().map(|output| *output).map_err(|_| wrong())
        }
    }
}

fn subgraph_error(error: RunError) -> NodeError {
    let transient = match error.root() {
        RunError::Node { error, .. } => error.is_transient(),
        _ => false,
    };
    NodeError::from_kind(NodeErrorKind::Subgraph(Box::new(error)), transient)
}

/// What is the same for all tasks of a run.
fn shared<S: Values, C>(
    graph: &Inner<S, C>,
    context: Arc<C>,
    config: Arc<Config>,
    namespace: Vec<String>,
    emitter: Option<&Arc<Emitter<S>>>,
    crew: Arc<Crew>,
) -> Shared<C> {
    let outlet = emitter.map(|emitter| emitter.clone() as Arc<dyn Outlet>);
    let (plan, heartbeat, id) = (graph.plan.clone(), None, OnceLock::new());
    Shared { context, config, plan, namespace, outlet, crew, heartbeat, id }
}
