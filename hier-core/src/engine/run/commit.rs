use uuid::Uuid;

use crate::checkpoint::{SideEffects, Source, TaskWrites, WriteRecord};
use crate::engine::attempt::exec::TaskResult;
use crate::engine::attempt::record::failed;
use crate::engine::attempt::stored::FailureRecord;
use crate::engine::durable::journal::StepMetadata;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::TaskKey;
use crate::engine::run::runner::GraphRunner;
use crate::error::RunError;
use crate::state::Values;

/// The records of a superstep, and the messages of the thread's inbox that it has applied.
#[derive(Default)]
pub(super) struct StepCommit {
    pub(super) records: Vec<WriteRecord>,
    pub(super) taken: Vec<Uuid>,
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Stores the error of a task that ran alone. A result is not stored separately, because it is part of the
    /// superstep's checkpoint.
    #[inline]
    pub(super) async fn record_failure(&self, result: &TaskResult<S>) -> Result<(), RunError> {
        let (Err(_), Some(log)) = (result, &self.task.run.shared.log) else { return Ok(()) };
        log.record_end(&self.task, result).await.map_err(|error| self.failed(self.task.run.key.node, error))
    }

    pub(super) async fn store_step(&mut self) -> Result<(), RunError> {
        // The results of the superstep are stored even if the channel rejects a message in the inbox.
        let (taken, refused) = match self.drain_inbox().await {
            Ok(taken) => (taken, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let records = self.checkpoint(Source::Loop)?.into_iter().collect();
        if taken.is_empty() && self.is_last_commit() {
            self.commit_last(records).await?;
        } else {
            self.commit(StepCommit { records, taken }).await?;
        }
        if self.emitter.is_some() {
            self.emit_checkpoint(self.step, Source::Loop);
        }
        self.offer_answer();
        if let Some(policy) = self.step_policy() {
            policy.step_stored(&self.task.run.shared.namespace);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Makes the checkpoint of the current position. Returns `None` if the graph has no checkpoints, or if the
    /// checkpoint is held until the run ends.
    pub(super) fn checkpoint(&mut self, source: Source) -> Result<Option<WriteRecord>, RunError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        let mut agenda = self.position.agenda(&self.task.graph)?;
        let plan = &self.task.graph.plan;
        agenda.stops_after = self.breakpoints.iter().flat_map(|it| it.passed(plan)).cloned().collect();
        let metadata = StepMetadata { step: self.step, source, agenda };
        let Some(unstored) = self.position.begin_checkpoint() else { return Ok(None) };
        journal.checkpoint(&*self.task.state, unstored, metadata)
    }

    /// Returns true if the run will store nothing after this superstep: the root graph has finished, and no tracked
    /// task is running.
    fn is_last_commit(&self) -> bool {
        !self.is_child()
            && self.position.is_over()
            && self.step_policy().is_none()
            && self.task.run.shared.tracker.is_empty()
    }

    async fn commit_last(&self, records: Vec<WriteRecord>) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else { return Ok(()) };
        journal.log.committer.commit_last(records).await.map_err(|error| journal.saver(error))
    }

    /// Stores a superstep, and takes its messages in the same commit.
    pub(super) async fn commit(&self, commit: StepCommit) -> Result<(), RunError> {
        let StepCommit { records, taken } = commit;
        match &self.journal {
            Some(journal) if journal.log.holds() => {
                for message in taken {
                    journal.log.reserve(message);
                }
                Ok(())
            }
            _ if taken.is_empty() => self.commit_records(records).await,
            _ => Box::pin(self.commit_also(records, SideEffects::taking(taken))).await,
        }
    }

    async fn commit_records(&self, records: Vec<WriteRecord>) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else { return Ok(()) };
        journal.log.committer.commit(records).await.map_err(|error| journal.saver(error))
    }

    async fn commit_also(&self, records: Vec<WriteRecord>, also: SideEffects) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !also.is_empty()) else {
            return self.commit_records(records).await;
        };
        journal.log.committer.commit_also(records, also).await.map_err(|error| journal.saver(error))
    }

    /// Stores these records at once, whatever the durability of the run, because a command or an answer of a caller
    /// must not get lost.
    pub(super) async fn commit_now(&self, records: Vec<WriteRecord>, also: SideEffects) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let committer = &journal.log.committer;
        let stored = if also.is_empty() {
            committer.commit_now(records).await
        } else {
            committer.commit_also(records, also).await
        };
        stored.map_err(|error| journal.saver(error))
    }

    /// Stores the records that were held until the end of the run, including those of subgraphs.
    pub(super) async fn store_held(&mut self) -> Result<(), RunError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let graph = self.task.graph.clone();
        let own = journal.take_held(|| (graph.initial)())?;
        let (mut records, taken) = journal.log.take_deferred();
        records.extend(own);
        let mut also = journal.log.committer.take_held();
        also.taken = taken;
        self.commit_also(records, also).await
    }

    /// Stores the records that a subgraph held until the end of its call. If they take messages, passes them to the
    /// outer graph instead.
    pub(super) async fn store_call(&mut self, outer: Option<&TaskLog>) -> Result<(), RunError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let graph = self.task.graph.clone();
        let records = journal.take_held(|| (graph.initial)())?;
        match outer.filter(|_| journal.log.is_deferred()) {
            Some(outer) => journal.log.hand_up(outer, records),
            None => return self.commit_records(records).await,
        }
        Ok(())
    }

    /// Voids the results of a superstep that cannot be applied. `slots` has the first free slot of each task.
    pub(super) async fn void_step(&mut self, keys: &[TaskKey], slots: &[i32]) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let checkpoint = journal.base.unwrap_or_default();
        let plan = &self.task.graph.plan;
        for (key, slot) in keys.iter().zip(slots) {
            let task = self.task.sibling(*key, None);
            let message = "the engine could not apply the writes of the task".to_owned();
            let entry = failed(&FailureRecord { message, void: Some(*slot), ..FailureRecord::default() })
                .map_err(|error| self.failed(key.node, error))?;
            let (path, writes) = (plan.path(*key).into(), vec![entry]);
            let writes = TaskWrites { checkpoint, task: task.run.task_id(), path, writes };
            journal.log.write(writes).await.map_err(|error| journal.saver(error))?;
        }
        Ok(())
    }
}
