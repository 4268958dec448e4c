//! The segments of a namespace, separated by `|`. A namespace has one segment for each subgraph on the path from the
//! root.
//!
//! A segment is the current or an earlier name of the node. If the subgraph has checkpoints per call, the id of the
//! task follows.

use uuid::Uuid;

use crate::checkpoint::SaverError;
use crate::engine::log::saver::Saver;
use crate::engine::program::{Checkpoints, GraphContext, Program, Task};
use crate::error::RunError;
use crate::state::Values;

fn segment(checkpoints: Checkpoints, node: &str, task: Uuid) -> String {
    match checkpoints {
        Checkpoints::PerThread => node.to_owned(),
        _ => format!("{node}:{task}"),
    }
}

pub(crate) async fn segment_of_task<S: Values, C: GraphContext>(task: &Task<S, C>) -> Result<String, RunError> {
    let (graph, node, id) = (&*task.graph, task.run.key.node, task.run.task_id());
    let checkpoints = graph.nodes[node].checkpoints;
    let current = segment(checkpoints, graph.plan.name(node), id);
    let log = task.run.shared.log.as_ref().filter(|_| checkpoints != Checkpoints::None && was_renamed(graph, node));
    let Some(log) = log else { return Ok(current) };
    let committer = &log.committer;
    let found = async {
        committer.flush().await?;
        stored_segment(graph, &committer.saver, &committer.lease.thread, task.run.namespace(), TaskNode { node, id })
            .await
    };
    found.await.map_err(|error| RunError::Saver { graph: graph.plan.graph().to_owned(), error })
}

fn was_renamed<S: Values, C>(graph: &Program<S, C>, node: usize) -> bool {
    graph.renamed.iter().any(|(_, new)| new == graph.plan.name(node))
}

pub(in crate::engine) fn segments(namespace: &str) -> Vec<String> {
    namespace.split('|').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

pub(in crate::engine) fn last_segment(namespace: &str) -> &str {
    namespace.rsplit_once('|').map_or(namespace, |(_, segment)| segment)
}

/// Returns the namespace of a subgraph with this segment.
pub(in crate::engine) fn join_segment(outer: &[String], segment: &str) -> String {
    outer.iter().map(String::as_str).chain([segment]).collect::<Vec<_>>().join("|")
}

#[derive(Clone, Copy)]
pub(in crate::engine) struct TaskNode {
    pub(in crate::engine) node: usize,
    pub(in crate::engine) id: Uuid,
}

/// Returns the segment under which a task's subgraph has stored checkpoints: with an earlier name of the node, or with
/// its current name if no checkpoint has an earlier name.
pub(in crate::engine) async fn stored_segment<S: Values, C>(
    graph: &Program<S, C>,
    saver: &Saver,
    thread: &str,
    outer: &[String],
    TaskNode { node, id }: TaskNode,
) -> Result<String, SaverError> {
    let (name, checkpoints) = (graph.plan.name(node), graph.nodes[node].checkpoints);
    for (old, _) in graph.renamed.iter().filter(|(_, new)| new == name) {
        let segment = segment(checkpoints, old, id);
        if saver.get(thread, &join_segment(outer, &segment), None).await?.is_some() {
            return Ok(segment);
        }
    }
    Ok(segment(checkpoints, name, id))
}
