use crate::engine::program::{Program, RouteFn, Routing, TaskOutcome};
use crate::error::{NodeError, NodeErrorKind};
use crate::panics;
use crate::state::{ChannelWrite, Values, Writes};

/// Turns a panic of the user's types and routes into an error.
pub(crate) fn safely<T>(work: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
    panics::catch(work).unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))
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
        .map_err(|payload| refused(format!("the reducer panicked: {}", panics::text(&*payload))))?
        .map_err(|error| refused(error.to_string()))
}
