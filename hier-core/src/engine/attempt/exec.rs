//! Runs one task: the node with its options, up to its writes and destinations.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tracing::Instrument;

use crate::engine::attempt::report::{report, task_span};
use crate::engine::attempt::resolve;
use crate::engine::attempt::route::{safely, with_routes};
use crate::engine::program::heartbeat::{self, NodeHeartbeat};
use crate::engine::program::{
    Body, By, CacheKey, CacheTaint, Destinations, Failure, Gotos, GraphContext, NodeDef, NodeResult, Output, Task,
    TaskOutcome, TaskResume,
};
use crate::engine::stream::emitter::Emitter;
use crate::error::{NodeError, NodeErrorKind, TimeoutKind};
use crate::panics;
use crate::state::Values;

pub(crate) type TaskResult<S> = Result<TaskOutcome<S>, NodeError>;

pub(crate) async fn execute<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    emitter: Option<&Emitter<S>>,
) -> Result<TaskOutcome<S>, NodeError> {
    let node = &task.graph.nodes[task.run.key.node];
    if node.bare {
        attempt(task, &node.body).await
    } else {
        // Boxed, so that the future of a node without options stays small.
        caught(Box::pin(guarded(task, node, emitter))).await
    }
}

/// Turns a panic into an error. The user's `Clone` and `Serialize` can panic, and so does a timer without a runtime.
async fn caught<T>(work: impl Future<Output = Result<T, NodeError>>) -> Result<T, NodeError> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))
}

async fn attempt<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    body: &Body<S, C>,
) -> Result<TaskOutcome<S>, NodeError> {
    resolve(task, call_node(task, body).await?)
}

/// Calls a node's code on the first poll.
#[inline]
pub(crate) fn call_node<'a, S: Values, C>(task: &'a Task<S, C>, body: &'a Body<S, C>) -> NodeCall<'a, S, C> {
    NodeCall::Begins(task, body)
}

/// A call of a node's code. Its panics become errors.
pub(crate) enum NodeCall<'a, S: Values, C> {
    Begins(&'a Task<S, C>, &'a Body<S, C>),
    Runs(BoxFuture<'a, NodeResult<S>>),
}

impl<S: Values, C> Future for NodeCall<'_, S, C> {
    type Output = NodeResult<S>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NodeResult<S>> {
        // Assigned from inside the closure, so that the output is not moved once more.
        let mut polled = Poll::Pending;
        let call = &mut *self;
        let caught = panics::catch(|| match call {
            Self::Begins(task, body) => {
                let mut running = body(task);
                polled = running.as_mut().poll(context);
                if polled.is_pending() {
                    *call = Self::Runs(running);
                }
            }
            Self::Runs(running) => polled = running.as_mut().poll(context),
        });
        match caught {
            Ok(()) => polled,
            Err(payload) => Poll::Ready(Err(NodeError::panic(&*payload))),
        }
    }
}

/// Runs the node with cache, retries, timeouts and error handler.
async fn guarded<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    node: &NodeDef<S, C>,
    emitter: Option<&Emitter<S>>,
) -> Result<TaskOutcome<S>, NodeError> {
    let Some(handler) = &node.on_error else { return cached(task, node).await };
    if let Some(failure) = task.run.resume.as_ref().and_then(|resume| resume.failure.as_ref()) {
        return handle(task, handler, NodeError::permanent(failure)).await;
    }
    let result = cached(task, node).await;
    let Some(error) = result.as_ref().err().filter(|error| !error.is_signal()).cloned() else { return result };
    if let Some(log) = &task.run.shared.log {
        Box::pin(log.handled(&task.run, &error)).await?;
    }
    if let Some(emitter) = emitter {
        report(emitter, task, &result);
    }
    handle(task, handler, error).await
}

async fn cached<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    node: &NodeDef<S, C>,
) -> Result<TaskOutcome<S>, NodeError> {
    // An answer belongs to one person, so a result that depends on it is not cached. A resumed subgraph may have used
    // answers that this task has no record of.
    let is_own = |resume: &TaskResume| resume.is_about_answers() || node.child.is_some();
    let Some(cache) = node.cache.filter(|_| !task.run.resume.as_deref().is_some_and(is_own)) else {
        return retried(task, node).await;
    };
    let (key, of_somebody) = key_of(task, node)?;
    if let Some(done) = task.graph.cache.get(key) {
        return Ok(done);
    }
    let taint = Arc::new(CacheTaint::within(task.run.shared.taint.clone()));
    let mut noted = task.clone();
    noted.run.taint = Some(taint.clone());
    let done = retried(&noted, node).await?;
    if !taint.used_answer() && (of_somebody || !taint.used_surroundings()) {
        task.graph.cache.put(key, cache.ttl, &done);
    }
    Ok(done)
}

/// Returns the key of a task. The flag is true if the key depends on the context or the configuration.
fn key_of<S, C>(task: &Task<S, C>, node: &NodeDef<S, C>) -> Result<(CacheKey, bool), NodeError>
where
    S: Values,
{
    let Some(key) = &node.cache_key else { return Ok((CacheKey::of_inputs(task, node.reads)?, false)) };
    let taint = Arc::new(CacheTaint::within(task.run.shared.taint.clone()));
    let mut noted = task.clone();
    noted.run.taint = Some(taint.clone());
    let input = key(&noted)?;
    Ok((CacheKey::of_function(task, input), taint.used_surroundings()))
}

async fn handle<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    handler: &Body<S, C>,
    error: NodeError,
) -> Result<TaskOutcome<S>, NodeError> {
    let failure = Box::new(Failure { node: task.run.node().to_owned(), error });
    let mut task = Task { failure: Some(failure), ..task.clone() };
    task.run.is_handler = true;
    match attempt(&task, handler).await {
        Ok(done) => Ok(TaskOutcome { by: By::Handler, ..done }),
        // The record of the node's failure stays, so that the next attempt runs the handler again.
        Err(error) => Err(error.of_handler()),
    }
}

async fn retried<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    node: &NodeDef<S, C>,
) -> Result<TaskOutcome<S>, NodeError> {
    let mut task = task.clone();
    loop {
        let error = match bounded(&mut task, node).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let failures = task.run.attempt;
        let Some(retry) = node.retry.filter(|retry| error.is_transient() && failures < retry.attempts) else {
            return Err(error);
        };
        let wait = retry.pause(failures);
        tracing::debug!(node = task.run.node(), attempt = failures, %error, ?wait, "a node failed; retrying it");
        task.run.pause(wait).await;
        task.run.attempt += 1;
    }
}

async fn bounded<S: Values, C: GraphContext>(
    task: &mut Task<S, C>,
    node: &NodeDef<S, C>,
) -> Result<TaskOutcome<S>, NodeError> {
    let expired = |kind, limit| NodeError::from_kind(NodeErrorKind::Timeout { kind, limit }, true);
    let outer = &task.run.shared.heartbeat;
    let is_last = node.retry.is_none_or(|retry| task.run.attempt >= retry.attempts);
    let limit = node.idle_timeout.or(node.timeout.map(|_| Duration::MAX));
    let heartbeat = limit.map(|limit| Arc::new(NodeHeartbeat::new(limit, is_last, outer.clone())));
    task.run.heartbeat.clone_from(&heartbeat);
    let task = &*task;
    let work = async {
        match (node.idle_timeout, &heartbeat) {
            (Some(limit), Some(heartbeat)) => heartbeat::watch(attempt(task, &node.body), heartbeat)
                .await
                .unwrap_or_else(|| Err(expired(TimeoutKind::Idle, limit))),
            _ => attempt(task, &node.body).await,
        }
    };
    let Some(limit) = node.timeout else { return work.await };
    // Pinned here, so that the timeout is recorded before the work is dropped.
    let mut work = pin!(work);
    tokio::time::timeout(limit, work.as_mut()).await.unwrap_or_else(|_| {
        if let Some(heartbeat) = &heartbeat {
            heartbeat.expire();
        }
        Err(expired(TimeoutKind::Run, limit))
    })
}

#[inline]
pub(crate) fn resolve<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    output: Output<S>,
) -> Result<TaskOutcome<S>, NodeError> {
    task.state.check_update(&output.writes)?;
    let mut done = TaskOutcome::input(output.writes);
    if let Some(gotos) = output.gotos {
        let Gotos { jumps, parent } = *gotos;
        let destinations = resolve::destinations(&task.graph.plan, Some(task.run.key.node), jumps);
        let destinations = destinations.map_err(|reason| NodeError::from_kind(NodeErrorKind::Goto(reason), false))?;
        done.destinations = Some(Box::new(Destinations { parent, ..destinations }));
    }
    Ok(done)
}

/// Runs a task that has siblings. Its routes see the state before the superstep and the task's own writes.
pub(crate) async fn execute_and_route<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    emitter: Option<&Emitter<S>>,
) -> Result<TaskOutcome<S>, NodeError> {
    routed(task, execute(task, emitter).await?)
}

#[inline]
pub(crate) fn routed<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    done: TaskOutcome<S>,
) -> Result<TaskOutcome<S>, NodeError> {
    let routes = &task.graph.plan.exits[task.run.key.node].routes;
    if routes.is_empty() || done.by == By::Handler || done.is_for_parent() {
        return Ok(done);
    }
    safely(|| with_routes(&task.graph, task.state(), routes, done))
}

/// Runs a task that has siblings, and reports its result to the stream. In a durable run, stores the result.
pub(crate) async fn execute_and_record<S: Values, C: GraphContext>(
    task: &Task<S, C>,
    emitter: Option<&Emitter<S>>,
) -> Result<TaskOutcome<S>, NodeError> {
    let work = async {
        let mut result = execute_and_route(task, emitter).await;
        if let Some(log) = &task.run.shared.log
            && let Err(error) = log.record_end(task, &result).await
        {
            // Dropping the writes may panic, and the error of the saver counts.
            let _ = panics::catch(|| drop(std::mem::replace(&mut result, Err(error))));
        }
        safely(|| {
            if let Some(emitter) = emitter {
                report(emitter, task, &result);
            }
            result
        })
    };
    work.instrument(task_span(task)).await
}
