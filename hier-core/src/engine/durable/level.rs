//! Under which name the checkpoints of a node's graph are found: the node's, or one that it had before.

use uuid::Uuid;

use crate::checkpoint::SaverError;
use crate::engine::log::saver::Saver;
use crate::engine::program::{Checkpoints, Program, Task};
use crate::error::RunError;
use crate::state::Values;

/// The part of a namespace that stands for the graph which a task runs.
fn level(checkpoints: Checkpoints, node: &str, task: Uuid) -> String {
    match checkpoints {
        Checkpoints::PerThread => node.to_owned(),
        _ => format!("{node}:{task}"),
    }
}

/// That part for a task that is about to run its graph.
pub(crate) async fn level_of<S, C>(task: &Task<S, C>) -> Result<String, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (graph, node, id) = (&*task.graph, task.run.key.node, task.run.task_id());
    let checkpoints = graph.nodes[node].checkpoints;
    let now = level(checkpoints, graph.plan.name(node), id);
    let log = task.run.shared.log.as_ref().filter(|_| checkpoints != Checkpoints::None && has_old_name(graph, node));
    let Some(log) = log else { return Ok(now) };
    let committer = &log.committer;
    let found = async {
        committer.flush().await?;
        stored_level(graph, &committer.saver, &committer.lease.thread, task.run.namespace(), node, id).await
    };
    found.await.map_err(|error| RunError::Saver { graph: graph.plan.graph().to_owned(), error })
}

/// Whether a node is said to have been called otherwise.
fn has_old_name<S: Values, C>(graph: &Program<S, C>, node: usize) -> bool {
    graph.renamed.iter().any(|(_, new)| new == graph.plan.name(node))
}

/// The parts of a namespace.
pub(in crate::engine) fn levels(namespace: &str) -> Vec<String> {
    namespace.split('|').filter(|level| !level.is_empty()).map(str::to_owned).collect()
}

/// The namespace of a graph inside another's.
pub(in crate::engine) fn within(outer: &[String], level: &str) -> String {
    outer.iter().map(String::as_str).chain([level]).collect::<Vec<_>>().join("|")
}

/// That part for a task of which something may be stored.
pub(in crate::engine) async fn stored_level<S: Values, C>(
    graph: &Program<S, C>,
    saver: &Saver,
    thread: &str,
    outer: &[String],
    node: usize,
    task: Uuid,
) -> Result<String, SaverError> {
    let (name, checkpoints) = (graph.plan.name(node), graph.nodes[node].checkpoints);
    for (old, _) in graph.renamed.iter().filter(|(_, new)| new == name) {
        let level = level(checkpoints, old, task);
        if saver.get(thread, &within(outer, &level), None).await?.is_some() {
            return Ok(level);
        }
    }
    Ok(level(checkpoints, name, task))
}
