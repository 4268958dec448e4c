//! Runs one task: the node's code with its options, up to its writes and where they lead.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hier_spec::did_you_mean;
use smallvec::SmallVec;

use super::cache::CacheKey;
use super::heartbeat::{self, Heartbeat};
use super::plan::Allowed;
use crate::error::{NodeError, NodeErrorKind, TimeoutKind, panic_text};
use crate::graph::handler::Failure;
use crate::graph::{Body, Jump, NodeDef, Output, Parcel, Routing, Task};
use crate::graph::{ParentCommand, RouteFn};
use crate::state::{Values, Writes};

/// What a task did: its writes, and where they lead. Nodes are ranks.
pub(crate) struct Done<S: Values> {
    pub(crate) writes: Writes<S>,
    pub(crate) go: SmallVec<[usize; 4]>,
    pub(crate) sends: Vec<(usize, Parcel)>,
    pub(crate) parent: Option<Box<dyn ParentCommand>>,
    /// Whose result it is.
    pub(crate) by: By,
}

/// Who produced a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node: its own edges are followed.
    Node,
    /// The node, at an earlier time: its own edges are followed.
    Cache,
    /// The node's error handler: its own edges are not followed.
    Handler,
}

impl<S: Values> Done<S> {
    /// What applying an input does.
    pub(crate) fn input(writes: Writes<S>) -> Self {
        Self { writes, go: SmallVec::new(), sends: Vec::new(), parent: None, by: By::Node }
    }
}

/// Runs the task's node.
pub(crate) async fn execute<S, C>(task: &Task<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let node = &task.graph.nodes[task.run.key.node];
    if node.bare { attempt(task, &node.body).await } else { guarded(task, node).await }
}

/// One attempt, without any option.
async fn attempt<S, C>(task: &Task<S, C>, body: &Body<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let call = AssertUnwindSafe(async { body(task).await }).catch_unwind();
    let output = call.await.unwrap_or_else(|payload| Err(NodeError::panic(&*payload)))?;
    resolve(task, output)
}

/// With retries, timeouts, cache and handler.
async fn guarded<S, C>(task: &Task<S, C>, node: &NodeDef<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let key = match node.cache {
        Some(_) => Some(CacheKey::of(task)?),
        None => None,
    };
    if let Some(done) = key.and_then(|key| task.graph.cache.get(key)) {
        return Ok(done);
    }
    let error = match retried(task, node).await {
        Ok(done) => {
            if let (Some(key), Some(cache)) = (key, node.cache) {
                task.graph.cache.put(key, cache.ttl, &done);
            }
            return Ok(done);
        }
        Err(error) => error,
    };
    match &node.on_error {
        Some(handler) if !matches!(error.kind(), NodeErrorKind::Interrupt(_)) => handle(task, handler, error).await,
        _ => Err(error),
    }
}

async fn handle<S, C>(task: &Task<S, C>, handler: &Body<S, C>, error: NodeError) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let failure = Failure { node: task.run.node().to_owned(), error };
    let task = Task { failure: Some(failure), ..task.clone() };
    Ok(Done { by: By::Handler, ..attempt(&task, handler).await? })
}

async fn retried<S, C>(task: &Task<S, C>, node: &NodeDef<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
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
        let wait = retry.wait(failures);
        let jitter = retry.jitter.max(0.0) * fastrand::f64();
        tracing::debug!(node = task.run.node(), attempt = failures, %error, ?wait, "a node failed and will be run again");
        tokio::time::sleep(wait.saturating_add(wait.mul_f64(jitter.min(1e6)))).await;
        task.run.attempt += 1;
    }
}

/// One attempt, with its bounds of time.
async fn bounded<S, C>(task: &mut Task<S, C>, node: &NodeDef<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let expired = |kind, limit| NodeError::from_kind(NodeErrorKind::Timeout { kind, limit }, true);
    let heartbeat = node.idle_timeout.map(|_| Arc::new(Heartbeat::default()));
    task.run.heartbeat.clone_from(&heartbeat);
    let task = &*task;
    let work = async {
        match (node.idle_timeout, &heartbeat) {
            (Some(limit), Some(heartbeat)) => heartbeat::watch(attempt(task, &node.body), heartbeat, limit)
                .await
                .unwrap_or_else(|| Err(expired(TimeoutKind::Idle, limit))),
            _ => attempt(task, &node.body).await,
        }
    };
    match node.timeout {
        Some(limit) => tokio::time::timeout(limit, work)
            .await
            .unwrap_or_else(|_| Err(expired(TimeoutKind::Run, limit))),
        None => work.await,
    }
}

/// Checks where the output wants to go.
fn resolve<S, C>(task: &Task<S, C>, output: Output<S>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let Output { writes, jumps, parent } = output;
    let mut done = Done { parent, ..Done::input(writes) };
    for jump in jumps {
        target(task, jump, &mut done)?;
    }
    Ok(done)
}

fn target<S, C>(task: &Task<S, C>, jump: Jump, done: &mut Done<S>) -> Result<(), NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let plan = &task.graph.plan;
    let wrong = |text: String| Err(NodeError::from_kind(NodeErrorKind::Goto(text), false));
    if let Some(graph) = jump.graph
        && graph != plan.graph()
    {
        let node = jump.node.as_deref().unwrap_or(hier_spec::END);
        return wrong(format!("its command goes to `{node}` of graph `{graph}`, but it runs in graph `{}`", plan.graph()));
    }
    let allowed = &plan.allowed[task.run.key.node];
    let Some(name) = jump.node else {
        return match (allowed, jump.parcel) {
            (_, Some(_)) => wrong("its command sends to END, which takes nothing: use `goto(END)`".to_owned()),
            (Allowed::Any | Allowed::Only(_, true), None) => Ok(()),
            _ => wrong(undeclared("END", task.run.node())),
        };
    };
    let Some(node) = plan.find(&name) else {
        return wrong(format!("its command goes to `{name}`, which is no node{}", did_you_mean(&name, plan.names())));
    };
    if let Allowed::Only(nodes, _) = allowed
        && !nodes.contains(node)
    {
        return wrong(undeclared(&name, task.run.node()));
    }
    match jump.parcel {
        Some(parcel) => done.sends.push((node, parcel)),
        None => done.go.push(node),
    }
    Ok(())
}

fn undeclared(target: &str, node: &str) -> String {
    format!("its command goes to `{target}`, which it does not declare: write `{node} {{ goto: [{target}] }}` in the graph")
}

/// Asks the node's routes, which see the state that they are given.
pub(crate) fn route<S: Values>(
    routes: &[RouteFn<S>],
    numbers: &[usize],
    rank: impl Fn(usize) -> usize,
    state: &S,
    done: &mut Done<S>,
) -> Result<(), NodeError> {
    let mut routing = Routing::default();
    let ask = || numbers.iter().try_for_each(|number| routes[*number](state, &mut routing));
    std::panic::catch_unwind(AssertUnwindSafe(ask)).map_err(|payload| {
        NodeError::from_kind(NodeErrorKind::Panic(format!("in its route: {}", panic_text(&*payload))), false)
    })??;
    done.go.extend(routing.go.into_iter().map(&rank));
    done.sends.extend(routing.sends.into_iter().map(|(node, parcel)| (rank(node), parcel)));
    Ok(())
}

/// Runs a task that has siblings: its routes see the state of the step's start with its own writes.
pub(crate) async fn execute_and_route<S, C>(task: &Task<S, C>) -> Result<Done<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let mut done = execute(task).await?;
    let plan = &task.graph.plan;
    let routes = &plan.exits[task.run.key.node].routes;
    if routes.is_empty() || done.by == By::Handler || done.parent.is_some() {
        return Ok(done);
    }
    let rank = |index| plan.rank(index);
    if done.writes.is_empty() {
        route(&task.graph.routes, routes, rank, task.state(), &mut done)?;
        return Ok(done);
    }
    let mut state = S::clone(task.state());
    for write in &done.writes {
        let write = write.clone();
        let merge = AssertUnwindSafe(|| state.reduce(write));
        std::panic::catch_unwind(merge)
            .map_err(|payload| NodeError::panic(&*payload))?
            .map_err(|error| NodeError::permanent(error.to_string()))?;
    }
    route(&task.graph.routes, routes, rank, &state, &mut done)?;
    Ok(done)
}
