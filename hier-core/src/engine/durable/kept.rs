//! What subgraphs that keep their state from call to call have: which of their checkpoints a line of the history goes on from.
//!
//! Their namespaces hold the checkpoints of all lines. So each checkpoint of the graph around them names theirs
//! ([`NextTasks::kept`](crate::checkpoint::NextTasks::kept)); what a call has done since then, in the step that is open, has the id
//! of the task that called.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::checkpoint::{Checkpoint, Kept, ListQuery, SaverError};
use crate::engine::durable::level::{stored_level, within};
use crate::engine::durable::pending::Pending;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Checkpoints, Program, TaskKey};
use crate::state::Values;

/// The metadata by which a subgraph that keeps its state knows which call it is in.
pub(in crate::engine) const CALL: &str = "__call__";

/// A graph of a thread.
pub(in crate::engine) struct Place<'a, S: Values, C> {
    pub(in crate::engine) graph: &'a Program<S, C>,
    pub(in crate::engine) saver: &'a Saver,
    pub(in crate::engine) thread: &'a str,
    pub(in crate::engine) namespace: &'a [String],
}

/// The newest checkpoint of a namespace: of a call, if one is said, and older than another.
pub(in crate::engine) async fn newest(
    saver: &Saver,
    thread: &str,
    namespace: &str,
    call: Option<String>,
    before: Option<Uuid>,
) -> Result<Option<Checkpoint>, SaverError> {
    let filter = call.into_iter().map(|call| (CALL.to_owned(), Value::String(call))).collect();
    let namespace = Some(namespace.to_owned());
    let query = ListQuery { namespace, filter, before, limit: Some(1), ..ListQuery::thread(thread) };
    Ok(saver.list(query).await?.pop().map(|listed| listed.checkpoint))
}

/// The checkpoint from which a run of a subgraph goes on, and the newest of its namespace.
pub(in crate::engine) async fn of_subgraph(
    saver: &Saver,
    outer: &TaskLog,
    thread: &str,
    (namespace, level): (&str, &str),
) -> Result<(Option<crate::checkpoint::Saved>, Option<Uuid>), SaverError> {
    let Some(latest) = saver.get(thread, namespace, None).await? else { return Ok((None, None)) };
    let newest_id = Some(latest.checkpoint.id);
    let Some(id) = outer.kept().and_then(|kept| kept.get(level).copied()) else { return Ok((None, newest_id)) };
    if newest_id == Some(id) {
        return Ok((Some(latest), newest_id));
    }
    if let Some(found) = saver.get(thread, namespace, Some(id)).await? {
        return Ok((Some(found), newest_id));
    }
    // It was deleted with the run that made it: what was there before counts.
    let found = match newest(saver, thread, namespace, None, Some(id)).await? {
        Some(before) => saver.get(thread, namespace, Some(before.id)).await?,
        None => None,
    };
    Ok((found, newest_id))
}

impl<S: Values, C> Place<'_, S, C> {
    /// The nodes that are graphs which keep their state.
    fn keepers(&self) -> impl Iterator<Item = usize> {
        let nodes = self.graph.nodes.iter().enumerate();
        let keeps = nodes.filter(|(_, node)| node.child.is_some() && node.checkpoints == Checkpoints::PerThread);
        keeps.map(|(node, _)| node)
    }

    /// What is kept where the graph goes on from this checkpoint. Of one that does not say it, what was made before `bound`.
    pub(in crate::engine) async fn opened(
        &self,
        checkpoint: Option<&Checkpoint>,
        bound: Option<Uuid>,
    ) -> Result<Option<Arc<Kept>>, SaverError> {
        if let Some(kept) = checkpoint.and_then(|checkpoint| checkpoint.agenda.kept.clone()) {
            return Ok(Some(kept));
        }
        let mut kept: Option<Arc<Kept>> = None;
        for node in self.keepers() {
            let kept = Arc::make_mut(kept.get_or_insert_default());
            let level = self.level(node, Uuid::nil()).await?;
            let namespace = within(self.namespace, &level);
            if let Some(found) = newest(self.saver, self.thread, &namespace, None, bound).await? {
                kept.insert(level.into(), found.id);
            }
        }
        Ok(kept)
    }

    /// Adds what calls of the open step, which follows the checkpoint `base`, have done.
    pub(in crate::engine) async fn begun(
        &self,
        kept: &mut Option<Arc<Kept>>,
        pending: &Pending,
        keys: impl Iterator<Item = TaskKey>,
        base: Uuid,
    ) -> Result<(), SaverError> {
        let keepers: Vec<usize> = self.keepers().collect();
        for key in keys.filter(|key| keepers.contains(&key.node)) {
            let plan = &self.graph.plan;
            let task = pending.id(&plan.path(key)).unwrap_or_else(|| plan.task_id(base, self.namespace, key));
            let level = self.level(key.node, task).await?;
            let namespace = within(self.namespace, &level);
            let Some(latest) = newest(self.saver, self.thread, &namespace, None, None).await? else { continue };
            let call = task.to_string();
            let is_of_call = latest.metadata.get(CALL).is_some_and(|stored| *stored == call);
            let found = if is_of_call {
                Some(latest)
            } else {
                newest(self.saver, self.thread, &namespace, Some(call), None).await?
            };
            if let Some(found) = found {
                Arc::make_mut(kept.get_or_insert_default()).insert(level.into(), found.id);
            }
        }
        Ok(())
    }

    async fn level(&self, node: usize, task: Uuid) -> Result<String, SaverError> {
        stored_level(self.graph, self.saver, self.thread, self.namespace, node, task).await
    }
}
