//! Converts the row of a run into the engine's types.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use hier_core::checkpoint::{Checkpointer, ListQuery, background};
use hier_core::client_call;
use hier_core::graph::{DynCommand, DynGraph, DynInput, DynRun, RunContext};
use hier_core::runs::{EventBuffering, Failure, Request, Run, RunsError};
use hier_core::{Config, DEFAULT_RECURSION_LIMIT, Durability, drive};

fn invalid(reason: impl Into<String>) -> Failure {
    Failure::new("InvalidRequest", reason)
}

/// Determines when the events of a run are stored.
pub(super) const fn keeps(durability: Durability) -> EventBuffering {
    match durability {
        Durability::Sync => EventBuffering::WithCommits,
        Durability::Async | Durability::Exit => EventBuffering::AsTheyCome,
    }
}

/// Returns true if an earlier attempt has stored the run's input.
pub(super) async fn is_entered(saver: &dyn Checkpointer, run: &Run) -> Result<bool, RunsError> {
    // A run from a checkpoint of a subgraph continues the thread without a branch.
    if !run.entered || run.request.checkpoint.is_none() || !run.request.checkpoint_ns.is_empty() {
        return Ok(run.entered);
    }
    // A run from an earlier checkpoint branches off. The branch has begun once one of its checkpoints contains the id
    // of the run. For a run from the newest checkpoint, the row decides.
    let newest = saver.list(ListQuery { limit: Some(1), ..ListQuery::thread(&run.thread) }).await?;
    if newest.first().map(|newest| newest.checkpoint.id) == run.request.checkpoint {
        return Ok(true);
    }
    let filter = [("run_id".to_owned(), Value::from(run.id.to_string()))].into_iter().collect();
    let query = ListQuery { filter, limit: Some(1), ..ListQuery::thread(&run.thread) };
    Ok(!saver.list(query).await?.is_empty())
}

/// Converts a run. `entered` is true if the input is already stored.
pub(super) fn prepare(
    graph: &dyn DynGraph,
    run: &Run,
    entered: bool,
    (max_attempts, max_steps): (u32, usize),
    (cancel, pause): (CancellationToken, CancellationToken),
) -> Result<DynRun, Failure> {
    let request = &run.request;
    let mut config = Config::new()
        .thread(&run.thread)
        .durability(request.durability)
        .stream_subgraphs(request.stream_subgraphs)
        .cancel(cancel);
    config = drive::for_worker(config, pause, max_attempts);
    for (key, value) in &run.metadata {
        config = config.metadata(key.clone(), value.clone());
    }
    // The engine's keys come last, because rollback and filters find checkpoints by them.
    config = config.run_id(run.id.to_string()).metadata("graph_id", run.graph.clone());
    if let Some(assistant) = &run.assistant {
        config = config.metadata("assistant_id", assistant.clone());
    }
    config = config.recursion_limit(recursion_limit(request)?.min(max_steps));
    if let Some(nodes) = &request.interrupt_before {
        config = config.interrupt_before(every(graph, nodes));
    }
    if let Some(nodes) = &request.interrupt_after {
        config = config.interrupt_after(every(graph, nodes));
    }
    let input = if entered { DynInput::Continue } else { input(request)? };
    if !entered {
        config = config.namespace(request.checkpoint_ns.clone());
    }
    if let Some(checkpoint) = request.checkpoint.filter(|_| !entered) {
        config = config.checkpoint(checkpoint);
    }
    let mut prepared = DynRun::new(input, config);
    prepared.modes.clone_from(&request.stream_modes);
    prepared.context = RunContext::new(request.context.clone());
    // A detached subagent has the context of its supervisor.
    let supervisor = background::outer_of(&run.thread).filter(|_| request.detached);
    prepared.context.thread = Some(supervisor.unwrap_or(&run.thread).to_owned());
    if let Some(Value::Object(configurable)) = request.config.get("configurable") {
        prepared.context.configurable.clone_from(configurable);
    }
    Ok(prepared)
}

fn recursion_limit(request: &Request) -> Result<usize, Failure> {
    let Some(limit) = request.config.get("recursion_limit").filter(|limit| !limit.is_null()) else {
        return Ok(DEFAULT_RECURSION_LIMIT);
    };
    let limit = limit.as_u64().and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    limit.ok_or_else(|| invalid("`config.recursion_limit` is not a whole number of 1 or more"))
}

pub(super) fn limit(request: &Request) -> Duration {
    request.timeout_ms.map_or(Duration::MAX, Duration::from_millis)
}

fn input(request: &Request) -> Result<DynInput, Failure> {
    match (&request.command, &request.input) {
        (Some(command), _) if !command.is_null() => {
            let mut command = DynCommand::from_json(command).map_err(invalid)?;
            if let ([question], Some(answer)) = (&*request.answers, &mut command.resume)
                && client_call::by_id(answer).is_none()
            {
                // Another question may be open by now.
                *answer = json!({ question: answer.take() });
            }
            Ok(DynInput::Command(command))
        }
        (_, Value::Null) => Ok(DynInput::Continue),
        (_, input) => Ok(DynInput::New(input.clone())),
    }
}

/// Returns the names of the nodes. The name `*` becomes the names of all nodes of the graph.
fn every(graph: &dyn DynGraph, nodes: &[String]) -> Vec<String> {
    if nodes.iter().any(|node| node == "*") {
        return graph.spec().nodes.iter().map(|node| node.name.clone().into_owned()).collect();
    }
    nodes.to_vec()
}
