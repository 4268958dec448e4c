//! What an update of a graph inside another changes beside it: the graphs around it go on from it, and what it had asked is
//! asked no more.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Checkpoint, CodecError, ListQuery, SaverError, TaskWrites, WriteRecord, is_per_call, slot};
use crate::config::Config;
use crate::engine::attempt::stored;
use crate::engine::durable::kept::newest;
use crate::engine::durable::level::{levels, within};
use crate::engine::durable::pending::Pending;
use crate::engine::log::saver::Saver;
use crate::engine::program::Input;
use crate::error::{NodeError, RunError};
use crate::state::Values;

/// A graph inside others, as the thread is now.
pub(in crate::engine) struct Line {
    /// The graphs around it, the root first: namespace and checkpoint. Those of which nothing is stored are left out.
    outer: Vec<(String, Checkpoint)>,
    /// Its own checkpoint.
    pub(in crate::engine) own: Option<Checkpoint>,
}

/// Why what stands around a graph could not be changed.
pub(in crate::engine) enum Refused {
    Saver(SaverError),
    Stored(CodecError),
    Unsaved(NodeError),
}

impl From<SaverError> for Refused {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}

impl Line {
    /// The line of the history on which the thread is, down to this namespace.
    pub(in crate::engine) async fn of(saver: &Saver, thread: &str, namespace: &str) -> Result<Self, SaverError> {
        let parts = levels(namespace);
        let mut line = Self { outer: Vec::new(), own: newest(saver, thread, "", None, None).await? };
        for (depth, level) in parts.iter().enumerate() {
            let outer = parts[..depth].join("|");
            let inner = inside(saver, thread, (&outer, line.own.as_ref()), level).await?;
            line.outer.extend(line.own.take().map(|checkpoint| (outer, checkpoint)));
            line.own = inner;
        }
        Ok(line)
    }

    /// What is stored with a new checkpoint of the namespace, which belongs to the call that these are the parents of.
    pub(in crate::engine) async fn follow(
        &self,
        saver: &Saver,
        thread: &str,
        namespace: &str,
        made: &Checkpoint,
    ) -> Result<Vec<WriteRecord>, Refused> {
        let (around, level) = namespace.rsplit_once('|').unwrap_or(("", namespace));
        let mut records = Vec::new();
        let outer = self.outer.iter().find(|(outer, _)| outer == around);
        if let Some((outer, checkpoint)) = outer.filter(|_| !is_per_call(level))
            && made.parents.get(around) != Some(&checkpoint.id)
        {
            // No call is open: the next one starts from it.
            let mut checkpoint = Box::new(checkpoint.clone());
            Arc::make_mut(checkpoint.agenda.kept.get_or_insert_default()).insert(level.into(), made.id);
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

impl Line {
    /// The graphs of the line down to this namespace, as far as something of them is stored.
    fn steps(&self, namespace: &str) -> Vec<(String, &Checkpoint)> {
        let outer = self.outer.iter().map(|(namespace, checkpoint)| (namespace.clone(), checkpoint));
        outer.chain(self.own.iter().map(|own| (namespace.to_owned(), own))).collect()
    }

    /// Returns the first graph on the path to this namespace whose call has ended. No run would continue from a change in it. Returns
    /// none if all calls are open, or if the graphs keep their state between calls.
    pub(in crate::engine) async fn closed(
        &self,
        saver: &Saver,
        thread: &str,
        namespace: &str,
    ) -> Result<Option<String>, Refused> {
        let steps = self.steps(namespace);
        for pair in steps.windows(2) {
            let [(around, outer), (inner, checkpoint)] = pair else { continue };
            let level = inner.rsplit_once('|').map_or(&**inner, |(_, level)| level);
            if !is_per_call(level) {
                continue;
            }
            let found = saver.get(thread, around, Some(outer.id)).await?;
            let task = level.rsplit_once(':').and_then(|(_, task)| Uuid::try_parse(task).ok());
            let pending = Pending::new(found.map(|found| found.writes).unwrap_or_default(), &[], None);
            let is_done = task.map(|task| pending.is_done(task)).transpose().map_err(Refused::Stored)?;
            if checkpoint.parents.get(around) != Some(&outer.id) || is_done == Some(true) {
                return Ok(Some(inner.clone()));
            }
        }
        Ok(None)
    }
}

/// Turns a run that resumes from a checkpoint of an inner graph into a run of the thread, if the thread is at that checkpoint.
pub(crate) async fn outermost<S: Values>(
    graph: &str,
    saver: &Saver,
    config: &Config,
    input: &Input<S>,
) -> Result<Config, RunError> {
    let (thread, namespace) = (config.thread_id().unwrap_or_default(), &*config.namespace);
    let failed = |error| RunError::Saver { graph: graph.to_owned(), error };
    let line = Line::of(saver, thread, namespace).await.map_err(failed)?;
    let asked = config.checkpoint.map(|id| format!(" checkpoint `{id}`")).unwrap_or_default();
    let place = format!("run of thread `{thread}` from namespace `{namespace}`{asked}");
    if matches!(input, Input::New(_)) {
        let reason = "a new input is one of the root graph: leave the namespace out";
        return Err(RunError::Config(format!("{place}: {reason}")));
    }
    let closed = line.closed(saver, thread, namespace).await.map_err(|refused| match refused {
        Refused::Saver(error) => failed(error),
        Refused::Stored(error) => failed(SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() }),
        Refused::Unsaved(error) => RunError::Config(format!("{place}: {error}")),
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
        |root| format!("run the checkpoint `{root}` of the root graph, in which this call was made, instead"),
    );
    Err(RunError::Config(format!(
        "{place}: the thread does not stand there, and a call inside a graph is not run again by itself; {instead}, or change the call \
         with `update_state` while it is open"
    )))
}

/// The checkpoint of a graph inside another: of the call that is open, or the one that the other keeps.
async fn inside(
    saver: &Saver,
    thread: &str,
    (around, outer): (&str, Option<&Checkpoint>),
    level: &str,
) -> Result<Option<Checkpoint>, SaverError> {
    let namespace = within(&levels(around), level);
    let Some(latest) = newest(saver, thread, &namespace, None, None).await? else { return Ok(None) };
    let Some((outer, kept)) = outer.and_then(|outer| Some((outer, outer.agenda.kept.as_ref()?))) else {
        return Ok(Some(latest));
    };
    let is_open = |checkpoint: &Checkpoint| checkpoint.parents.get(around) == Some(&outer.id);
    if is_per_call(level) || is_open(&latest) || kept.get(level) == Some(&latest.id) {
        return Ok(Some(latest));
    }
    // Another line has written to the namespace since.
    let all = saver.list(ListQuery { namespace: Some(namespace.clone()), ..ListQuery::thread(thread) }).await?;
    if let Some(open) = all.into_iter().find(|listed| is_open(&listed.checkpoint)) {
        return Ok(Some(open.checkpoint));
    }
    let Some(id) = kept.get(level) else { return Ok(None) };
    let found = saver.get(thread, &namespace, Some(*id)).await?.map(|found| found.checkpoint);
    match found {
        Some(found) => Ok(Some(found)),
        None => newest(saver, thread, &namespace, None, Some(*id)).await,
    }
}

/// What tasks have asked, less what the graph in this namespace asked, or one inside it.
fn withdrawn(records: Vec<TaskWrites>, namespace: &str) -> Result<Vec<TaskWrites>, Refused> {
    let pending = Pending::new(records, &[], None);
    let mut changed = Vec::new();
    for (record, mut questions) in pending.open().map_err(Refused::Stored)? {
        let mut some = false;
        for question in questions.iter_mut().filter(|question| !question.answered) {
            let asker = question.asker.as_ref().and_then(|asker| asker.namespace.strip_prefix(namespace));
            if asker.is_some_and(|rest| rest.is_empty() || rest.starts_with('|')) {
                (question.answered, question.withdrawn, some) = (true, true, true);
            }
        }
        if some {
            let entry = stored::entry(slot::INTERRUPT, stored::INTERRUPT, &questions).map_err(Refused::Unsaved)?;
            changed.push(TaskWrites { writes: vec![entry], ..record.clone() });
        }
    }
    Ok(changed)
}
