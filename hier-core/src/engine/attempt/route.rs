use std::any::Any;
use std::pin::Pin;

use crate::engine::program::{Program, RouteFn, Routing, TaskOutcome};
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::panics;
use crate::state::{ChannelWrite, Values, Writes};

/// Turns a panic of the user's types and routes into an error.
pub(crate) fn safely<T>(work: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
    panics::catch(work).unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))
}

/// Runs code of the state's types outside of a node. A panic becomes an error of the run.
pub(crate) fn type_code<S: Values, C, T>(graph: &Program<S, C>, work: impl FnOnce() -> T) -> Result<T, RunError> {
    panics::catch(work).map_err(|payload| type_panicked(graph, &*payload))
}

/// Like [`type_code`], for a future.
pub(crate) async fn type_future<S: Values, C, T>(
    graph: &Program<S, C>,
    work: Pin<&mut impl Future<Output = Result<T, RunError>>>,
) -> Result<T, RunError> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(type_panicked(graph, &*payload)))
}

fn type_panicked<S: Values, C>(graph: &Program<S, C>, payload: &(dyn Any + Send)) -> RunError {
    // The message of a panic may quote the value of a secret channel.
    let is_secret = !graph.secret_channels().is_empty();
    let message = if is_secret {
        "the message is hidden, because the state has a secret channel".to_owned()
    } else {
        panics::text(payload)
    };
    RunError::TypePanicked { graph: graph.plan.graph().to_owned(), what: "the state".to_owned(), message }
}

pub(crate) fn route<S: Values>(
    routes: &[RouteFn<S>],
    numbers: &[usize],
    state: &S,
    routing: &mut Routing,
) -> Result<(), NodeError> {
    let ask = || numbers.iter().try_for_each(|number| routes[*number](state, routing));
    panics::catch(ask).map_err(|payload| {
        NodeError::from_kind(NodeErrorKind::Panic(format!("in its route: {}", panics::text(&*payload))), false)
    })?
}

pub(crate) fn with_routes<S: Values, C>(
    graph: &Program<S, C>,
    state: &S,
    routes: &[usize],
    mut done: TaskOutcome<S>,
) -> Result<TaskOutcome<S>, NodeError> {
    let plan = &graph.plan;
    let mut routing = Routing::default();
    if done.writes.is_empty() {
        route(&graph.routes, routes, state, &mut routing)?;
    } else {
        route(&graph.routes, routes, &with_writes(state, &done.writes)?, &mut routing)?;
    }
    let destinations = done.destinations.get_or_insert_default();
    destinations.go.extend(routing.go.iter().map(|node| plan.rank(*node)));
    destinations.sends.append(routing.sends.take_sends().renumbered(|node| plan.rank(node)));
    Ok(done)
}

pub(crate) fn with_writes<S: Values>(state: &S, writes: &Writes<S>) -> Result<S, NodeError> {
    let mut state = state.clone();
    for write in writes {
        merge(&mut state, write)?;
    }
    Ok(state)
}

pub(crate) fn merge<S: Values>(state: &mut S, write: &S::Write) -> Result<(), NodeError> {
    let refused = |reason: String| {
        NodeError::permanent(format!("channel `{}` rejected the node's write: {reason}", write.name()))
    };
    panics::catch(|| state.reduce(write.clone()))
        .map_err(|payload| refused(reducer_panicked(write.is_secret(), &*payload)))?
        .map_err(|error| refused(error.to_string()))
}

/// Describes a panic of a reducer. Leaves out the message for a secret channel, because it may quote the value.
pub(crate) fn reducer_panicked(is_secret: bool, payload: &(dyn Any + Send)) -> String {
    if is_secret {
        return "the reducer of this secret channel panicked".to_owned();
    }
    format!("the reducer panicked: {}", panics::text(payload))
}
