//! The durable steps of a task: their numbers, and their storage.

use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use uuid::Uuid;

use super::numbers::CallScope;
use super::step_log::FoundStep;
use super::{STEP, StepKey, StepLog, TaskResume, hash};
use crate::checkpoint::{PendingWrite, SaverError, TaskWrites, codec};
use crate::engine::log::task_log::TaskLog;
use crate::error::{NodeError, NodeErrorKind};
use crate::question::Asker;

/// The known steps of a task, and their storage. The steps are stored with the task, or with the nearest outer task
/// whose graph has checkpoints.
#[derive(Clone)]
pub(crate) struct StepHome {
    /// None in a run without a checkpointer. The steps of such a run are only numbered.
    pub(super) store: Option<Arc<StepStore>>,
    /// Identifies the task for effects that must happen once: thread, namespace, superstep and id.
    pub(super) task_key: Arc<str>,
    pub(super) steps: Arc<StepLog>,
    /// Distinguishes the tasks of a graph without checkpoints, and the error handler from the task. Empty for the task
    /// of a graph with checkpoints.
    pub(super) scope: String,
    /// The attempts of the task and of its outer tasks, down from the outer task with which steps are stored.
    pub(super) attempts: Vec<u32>,
    /// The earlier progress of the task with which steps and answers are stored.
    pub(super) resume: Option<Arc<TaskResume>>,
}

pub(super) struct StepStore {
    pub(super) log: Arc<TaskLog>,
    pub(super) checkpoint: Uuid,
    pub(super) task: Uuid,
    pub(super) path: Arc<str>,
}

impl StepHome {
    /// Returns the key of a call that begins now.
    pub(super) fn begin(&self, name: &str, arguments: Option<String>) -> StepKey {
        let around = CallScope::current(&self.steps);
        let scope = match around.as_ref().and_then(|around| around.step.as_ref()) {
            // The digest includes the scope of the task.
            Some(step) => format!("step {}|", step.digest()),
            None => self.scope.clone(),
        };
        let key = StepKey { scope, name: name.to_owned(), arguments, number: 0 };
        let of_task = || self.steps.begin(&self.scope, &self.attempts, &key);
        let number = around.map_or_else(of_task, |around| around.numbers.next(&key, &of_task));
        StepKey { number, ..key }
    }

    pub(super) fn begin_for<A: Serialize + ?Sized>(&self, name: &str, arguments: &A) -> Result<StepKey, NodeError> {
        let arguments = hash(arguments).map_err(|error| {
            NodeError::permanent(format!("the arguments of step `{name}` cannot be serialized: {error}"))
        })?;
        Ok(self.begin(name, Some(arguments)))
    }

    /// Returns the key of a call that the engine makes for itself now. Its arguments are a text, not a hash.
    pub(super) fn begin_own(&self, name: &str, what: &str) -> StepKey {
        self.begin(name, Some(what.to_owned()))
    }

    /// Prepares the home for a graph without checkpoints. All tasks of such a graph number their questions together.
    pub(crate) fn of_graph(mut self) -> Self {
        self.resume.get_or_insert_default();
        self
    }

    pub(super) fn resume(&self) -> Option<&TaskResume> {
        self.resume.as_deref()
    }

    /// Returns the number of a question that is asked now.
    pub(super) fn place_question(&self, identity: &str, has_key: bool) -> usize {
        let Some(resume) = &self.resume else {
            // The first attempt numbers questions in the order in which it asks them. It may ask several at once.
            let number = self.steps.begin(&self.scope, &self.attempts, &StepKey::question(""));
            return usize::try_from(number).unwrap_or(usize::MAX);
        };
        let key = StepKey::question(identity);
        let of_task = || self.steps.begin(&self.scope, &self.attempts, &key);
        let around = CallScope::current(&self.steps);
        let nth = around.map_or_else(of_task, |around| around.numbers.next(&key, &of_task));
        resume.place(&self.scoped(identity), nth, has_key)
    }

    pub(super) fn has_answer(&self, identity: &str) -> bool {
        let Some(resume) = &self.resume else { return false };
        let key = StepKey::question(identity);
        let around = CallScope::current(&self.steps);
        let known = around.and_then(|around| around.numbers.peek(&key));
        let nth = known.unwrap_or_else(|| self.steps.peek(&self.scope, &self.attempts, &key));
        resume.has_answer(&self.scoped(identity), nth)
    }

    /// Returns the identity of a question among all questions that are stored with the same task.
    pub(super) fn scoped(&self, identity: &str) -> String {
        format!("{}{identity}", self.scope)
    }

    /// Returns the place where the answer to a question is stored. Returns `None` without a checkpointer.
    pub(super) fn asker(&self, number: usize, identity: &str, has_key: bool) -> Option<Asker> {
        self.store.as_ref().map(|store| Asker {
            namespace: store.log.namespace.to_string(),
            checkpoint: store.checkpoint,
            task: store.task,
            path: store.path.to_string(),
            number,
            identity: self.scoped(identity),
            has_key,
        })
    }

    pub(super) fn find(&self, key: &StepKey) -> Option<FoundStep> {
        self.steps.find(key)
    }

    pub(super) fn log(&self) -> Option<&TaskLog> {
        self.store.as_ref().map(|store| &*store.log)
    }

    /// Stores a result. `fresh` is false if an earlier attempt may have stored the result. With `until`, the task then
    /// waits in place until that time.
    pub(super) async fn store(
        &self,
        found: &FoundStep,
        fresh: bool,
        until: Option<SystemTime>,
    ) -> Result<(), NodeError> {
        let Some(store) = &self.store else { return Ok(()) };
        let value = codec::encode_record(&*found.record)?;
        let writes = vec![PendingWrite { slot: found.slot, channel: STEP.into(), value }];
        let (checkpoint, task, path) = (store.checkpoint, store.task, store.path.clone());
        let writes = TaskWrites { checkpoint, task, path, writes };
        let stored = match (found.message, until) {
            (None, None) => store.log.write_now(writes).await,
            (None, Some(until)) => store.log.write_until(writes, until).await,
            (Some(message), _) => store.log.write_taking(writes, message, fresh).await,
        };
        stored.map_err(unsaved)?;
        self.steps.mark_stored(found.index);
        Ok(())
    }
}

pub(crate) fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}
