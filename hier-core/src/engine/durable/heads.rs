//! Heads of subgraphs with checkpoints per thread. The head of a subgraph is the checkpoint from which it continues.
//!
//! The namespace of such a subgraph contains the checkpoints of all branches of the history. So each checkpoint of the
//! outer graph records the heads that belong to it ([`NextTasks::kept`](crate::checkpoint::NextTasks::kept)). A
//! checkpoint that a call makes in the open superstep carries the id of the calling task instead.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::checkpoint::{Checkpoint, Kept, ListQuery, Saved, SaverError};
use crate::engine::durable::names::CALL;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::segment::{TaskNode, join_segment, last_segment, stored_segment};
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Checkpoints, Program, TaskKey};
use crate::state::Values;

pub(in crate::engine) struct HeadReader<'a, S: Values, C> {
    pub(in crate::engine) graph: &'a Program<S, C>,
    pub(in crate::engine) saver: &'a Saver,
    pub(in crate::engine) thread: &'a str,
    pub(in crate::engine) namespace: &'a [String],
}

async fn newest_of(
    saver: &Saver,
    thread: &str,
    namespace: &str,
    query: ListQuery,
) -> Result<Option<Checkpoint>, SaverError> {
    let query =
        ListQuery { thread: Some(thread.to_owned()), namespace: Some(namespace.to_owned()), limit: Some(1), ..query };
    Ok(saver.list(query).await?.pop().map(|listed| listed.checkpoint))
}

pub(in crate::engine) async fn newest(
    saver: &Saver,
    thread: &str,
    namespace: &str,
) -> Result<Option<Checkpoint>, SaverError> {
    newest_of(saver, thread, namespace, ListQuery::default()).await
}

pub(in crate::engine) async fn newest_before(
    saver: &Saver,
    thread: &str,
    namespace: &str,
    before: Option<Uuid>,
) -> Result<Option<Checkpoint>, SaverError> {
    newest_of(saver, thread, namespace, ListQuery { before, ..ListQuery::default() }).await
}

/// The head of a subgraph, and the id of the newest checkpoint in its namespace.
#[derive(Default)]
pub(in crate::engine) struct SubgraphHead {
    pub(in crate::engine) saved: Option<Saved>,
    pub(in crate::engine) newest: Option<Uuid>,
}

pub(in crate::engine) async fn read_head(
    saver: &Saver,
    outer: &TaskLog,
    thread: &str,
    namespace: &str,
) -> Result<SubgraphHead, SaverError> {
    let Some(latest) = saver.get(thread, namespace, None).await? else { return Ok(SubgraphHead::default()) };
    let newest = Some(latest.checkpoint.id);
    let Some(id) = outer.heads().and_then(|heads| heads.get(last_segment(namespace)).copied()) else {
        return Ok(SubgraphHead { saved: None, newest });
    };
    if newest == Some(id) {
        return Ok(SubgraphHead { saved: Some(latest), newest });
    }
    if let Some(saved) = saver.get(thread, namespace, Some(id)).await? {
        return Ok(SubgraphHead { saved: Some(saved), newest });
    }
    // The head was deleted together with the run that made it, so the checkpoint before it is the head now.
    let found = match newest_before(saver, thread, namespace, Some(id)).await? {
        Some(before) => saver.get(thread, namespace, Some(before.id)).await?,
        None => None,
    };
    Ok(SubgraphHead { saved: found, newest })
}

impl<S: Values, C> HeadReader<'_, S, C> {
    /// The nodes that are subgraphs with checkpoints per thread.
    fn nodes(&self) -> impl Iterator<Item = usize> {
        let nodes = self.graph.nodes.iter().enumerate();
        let per_thread = nodes.filter(|(_, node)| node.child.is_some() && node.checkpoints == Checkpoints::PerThread);
        per_thread.map(|(node, _)| node)
    }

    /// Returns the heads that a checkpoint of the graph records. If the checkpoint records no heads, returns the newest
    /// checkpoints that are older than `bound`.
    pub(in crate::engine) async fn at(
        &self,
        checkpoint: Option<&Checkpoint>,
        bound: Option<Uuid>,
    ) -> Result<Option<Arc<Kept>>, SaverError> {
        if let Some(heads) = checkpoint.and_then(|checkpoint| checkpoint.agenda.kept.clone()) {
            return Ok(Some(heads));
        }
        let mut heads: Option<Arc<Kept>> = None;
        for node in self.nodes() {
            let heads = Arc::make_mut(heads.get_or_insert_default());
            let segment = self.segment(node, Uuid::nil()).await?;
            let namespace = join_segment(self.namespace, &segment);
            if let Some(found) = newest_before(self.saver, self.thread, &namespace, bound).await? {
                heads.insert(segment.into(), found.id);
            }
        }
        Ok(heads)
    }

    /// Adds the heads that calls of the open superstep have made. `base` is the checkpoint before the superstep.
    pub(in crate::engine) async fn add_open_calls(
        &self,
        heads: &mut Option<Arc<Kept>>,
        pending: &Pending,
        keys: impl Iterator<Item = TaskKey>,
        base: Uuid,
    ) -> Result<(), SaverError> {
        let nodes: Vec<usize> = self.nodes().collect();
        for key in keys.filter(|key| nodes.contains(&key.node)) {
            let plan = &self.graph.plan;
            let task = pending.id(&plan.path(key)).unwrap_or_else(|| plan.task_id(base, self.namespace, key));
            let segment = self.segment(key.node, task).await?;
            let namespace = join_segment(self.namespace, &segment);
            let Some(latest) = newest(self.saver, self.thread, &namespace).await? else { continue };
            let call = task.to_string();
            let is_of_call = latest.metadata.get(CALL).is_some_and(|stored| *stored == call);
            let found = if is_of_call {
                Some(latest)
            } else {
                let filter = [(CALL.to_owned(), Value::String(call))].into_iter().collect();
                newest_of(self.saver, self.thread, &namespace, ListQuery { filter, ..ListQuery::default() }).await?
            };
            if let Some(found) = found {
                Arc::make_mut(heads.get_or_insert_default()).insert(segment.into(), found.id);
            }
        }
        Ok(())
    }

    async fn segment(&self, node: usize, id: Uuid) -> Result<String, SaverError> {
        stored_segment(self.graph, self.saver, self.thread, self.namespace, TaskNode { node, id }).await
    }
}
