//! The current checkpoints on the path from the root graph to a subgraph. After an update of the subgraph, the outer
//! graphs continue from the updated subgraph, and its open questions are withdrawn.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Checkpoint, CodecError, ListQuery, SaverError, TaskWrites, WriteRecord, is_per_call, slot};
use crate::config::Config;
use crate::engine::attempt::stored;
use crate::engine::durable::heads::{newest, newest_before};
use crate::engine::durable::pending::Pending;
use crate::engine::durable::segment::{join_segment, last_segment, segments};
use crate::engine::log::saver::Saver;
use crate::engine::program::Input;
use crate::error::{NodeError, RunError};
use crate::state::Values;

pub(in crate::engine) struct CheckpointLine {
    /// The checkpoints of the outer graphs with their namespaces, the root first.
    outer: Vec<(String, Checkpoint)>,
    pub(in crate::engine) own: Option<Checkpoint>,
}

/// The error of an update of a subgraph, caused by the records of its outer graphs.
pub(in crate::engine) enum LineError {
    Saver(SaverError),
    Stored(CodecError),
    Unsaved(NodeError),
}

impl From<SaverError> for LineError {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}

impl CheckpointLine {
    pub(in crate::engine) async fn read(saver: &Saver, thread: &str, namespace: &str) -> Result<Self, SaverError> {
        let parts = segments(namespace);
        let mut line = Self { outer: Vec::new(), own: newest(saver, thread, "").await? };
        for (depth, segment) in parts.iter().enumerate() {
            let outer = parts[..depth].join("|");
            let inner = current_checkpoint(saver, thread, &outer, line.own.as_ref(), segment).await?;
            line.outer.extend(line.own.take().map(|checkpoint| (outer, checkpoint)));
            line.own = inner;
        }
        Ok(line)
    }

    /// Returns the records that make the outer graphs continue from a new checkpoint of this namespace.
    pub(in crate::engine) async fn follow(
        &self,
        saver: &Saver,
        thread: &str,
        namespace: &str,
        made: &Checkpoint,
    ) -> Result<Vec<WriteRecord>, LineError> {
        let (around, segment) = namespace.rsplit_once('|').unwrap_or(("", namespace));
        let mut records = Vec::new();
        let outer = self.outer.iter().find(|(outer, _)| outer == around);
        if let Some((outer, checkpoint)) = outer.filter(|_| !is_per_call(segment))
            && made.parents.get(around) != Some(&checkpoint.id)
        {
            // No call of the subgraph is open, so the next call starts from the new checkpoint.
            let mut checkpoint = Box::new(checkpoint.clone());
            Arc::make_mut(checkpoint.agenda.kept.get_or_insert_default()).insert(segment.into(), made.id);
            records.push(WriteRecord::Checkpoint { namespace: outer.as_str().into(), checkpoint, pieces: Vec::new() });
            return Ok(records);
        }
        for (outer, checkpoint) in &self.outer {
            let found = saver.get(thread, outer, Some(checkpoint.id)).await?;
            for writes in withdrawn(found.map(|found| found.writes).unwrap_or_default(), namespace)? {
                records.push(WriteRecord::Writes { namespace: outer.as_str().into(), writes });
            }
        }
        Ok(records)
    }
}

impl CheckpointLine {
    /// The checkpoints on the path to this namespace, with their namespaces.
    fn steps(&self, namespace: &str) -> Vec<(String, &Checkpoint)> {
        let outer = self.outer.iter().map(|(namespace, checkpoint)| (namespace.clone(), checkpoint));
        outer.chain(self.own.iter().map(|own| (namespace.to_owned(), own))).collect()
    }

    /// Returns the first graph on the path to this namespace whose call has ended. No run would continue from a change
    /// in this graph. Returns `None` if all calls are open, or if the graphs have checkpoints per thread.
    pub(in crate::engine) async fn closed(
        &self,
        saver: &Saver,
        thread: &str,
        namespace: &str,
    ) -> Result<Option<String>, LineError> {
        let steps = self.steps(namespace);
        for pair in steps.windows(2) {
            let [(around, outer), (inner, checkpoint)] = pair else { continue };
            let segment = last_segment(inner);
            if !is_per_call(segment) {
                continue;
            }
            let found = saver.get(thread, around, Some(outer.id)).await?;
            let task = segment.rsplit_once(':').and_then(|(_, task)| Uuid::try_parse(task).ok());
            let pending = Pending::new(found.map(|found| found.writes).unwrap_or_default(), &[], None);
            let is_done = task.map(|task| pending.is_done(task)).transpose().map_err(LineError::Stored)?;
            if checkpoint.parents.get(around) != Some(&outer.id) || is_done == Some(true) {
                return Ok(Some(inner.clone()));
            }
        }
        Ok(None)
    }
}

/// Converts the configuration of a run that addresses a subgraph to a configuration of its root graph. Fails if the
/// call of the subgraph has ended, or if the addressed checkpoint is not its current checkpoint.
pub(crate) async fn root_config<S: Values>(
    graph: &str,
    saver: &Saver,
    config: &Config,
    input: &Input<S>,
) -> Result<Config, RunError> {
    let (thread, namespace) = (config.thread_id().unwrap_or_default(), &*config.namespace);
    let failed = |error| RunError::Saver { graph: graph.to_owned(), error };
    let line = CheckpointLine::read(saver, thread, namespace).await.map_err(failed)?;
    let asked = config.checkpoint.map(|id| format!(" checkpoint `{id}`")).unwrap_or_default();
    let place = format!("run of thread `{thread}` from namespace `{namespace}`{asked}");
    if matches!(input, Input::New(_)) {
        let reason = "only the root graph accepts a new input: remove the namespace";
        return Err(RunError::Config(format!("{place}: {reason}")));
    }
    let closed = line.closed(saver, thread, namespace).await.map_err(|refused| match refused {
        LineError::Saver(error) => failed(error),
        LineError::Stored(error) => {
            failed(SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() })
        }
        LineError::Unsaved(error) => RunError::Config(format!("{place}: {error}")),
    })?;
    let stands = line.own.as_ref().map(|own| own.id);
    if closed.is_none() && stands.is_some() && (config.checkpoint.is_none() || config.checkpoint == stands) {
        let mut config = config.clone().namespace("");
        config.checkpoint = None;
        return Ok(config);
    }
    let found = saver.get(thread, namespace, config.checkpoint).await.map_err(failed)?;
    let root = found.as_ref().and_then(|found| found.checkpoint.parents.get(""));
    let instead = root.map_or_else(
        || "run a checkpoint of the root graph instead".to_owned(),
        |root| format!("run checkpoint `{root}` of the root graph, which made this call, instead"),
    );
    Err(RunError::Config(format!(
        "{place}: the thread is not at this checkpoint, and a subgraph's call cannot be repeated without its outer graph: \
         {instead}, or change the call with `update_state` while it is open"
    )))
}

/// Reads the checkpoint of the open call of a subgraph, or the head that the outer graph records.
async fn current_checkpoint(
    saver: &Saver,
    thread: &str,
    around: &str,
    outer: Option<&Checkpoint>,
    segment: &str,
) -> Result<Option<Checkpoint>, SaverError> {
    let namespace = join_segment(&segments(around), segment);
    let Some(latest) = newest(saver, thread, &namespace).await? else { return Ok(None) };
    let Some((outer, kept)) = outer.and_then(|outer| Some((outer, outer.agenda.kept.as_ref()?))) else {
        return Ok(Some(latest));
    };
    let is_open = |checkpoint: &Checkpoint| checkpoint.parents.get(around) == Some(&outer.id);
    if is_per_call(segment) || is_open(&latest) || kept.get(segment) == Some(&latest.id) {
        return Ok(Some(latest));
    }
    // The latest checkpoint belongs to another branch of the history.
    let all = saver.list(ListQuery { namespace: Some(namespace.clone()), ..ListQuery::thread(thread) }).await?;
    if let Some(open) = all.into_iter().find(|listed| is_open(&listed.checkpoint)) {
        return Ok(Some(open.checkpoint));
    }
    let Some(id) = kept.get(segment) else { return Ok(None) };
    let found = saver.get(thread, &namespace, Some(*id)).await?.map(|found| found.checkpoint);
    match found {
        Some(found) => Ok(Some(found)),
        None => newest_before(saver, thread, &namespace, Some(*id)).await,
    }
}

/// Withdraws the questions of the graph in this namespace and of its subgraphs. Returns the changed records.
fn withdrawn(records: Vec<TaskWrites>, namespace: &str) -> Result<Vec<TaskWrites>, LineError> {
    let pending = Pending::new(records, &[], None);
    let mut changed = Vec::new();
    for (record, mut questions) in pending.open().map_err(LineError::Stored)? {
        let mut some = false;
        for question in questions.iter_mut().filter(|question| !question.answered) {
            let asker = question.asker.as_ref().and_then(|asker| asker.namespace.strip_prefix(namespace));
            if asker.is_some_and(|rest| rest.is_empty() || rest.starts_with('|')) {
                (question.answered, question.withdrawn, some) = (true, true, true);
            }
        }
        if some {
            let entry = stored::entry(slot::INTERRUPT, stored::INTERRUPT, &questions).map_err(LineError::Unsaved)?;
            changed.push(TaskWrites { writes: vec![entry], ..record.clone() });
        }
    }
    Ok(changed)
}
