use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use uuid::Uuid;

use super::committer::Committer;
use super::deferred::LogId;
use crate::checkpoint::{DueChange, Kept, SaverError, SideEffects, TaskWrites, WriteRecord};
use crate::config::Durability;
use crate::sync::lock;

/// The log of the tasks of one graph of a durable run.
pub(crate) struct TaskLog {
    id: LogId,
    pub(crate) committer: Arc<Committer>,
    pub(crate) namespace: Arc<str>,
    /// Records for the last commit of the run.
    held: Mutex<Vec<TaskWrites>>,
    /// The heads of subgraphs with checkpoints per thread. None if the graph has no such subgraphs.
    heads: Mutex<Option<Arc<Kept>>>,
}

/// The writes of a task, with the namespace of its graph.
#[derive(Debug)]
pub(crate) struct NamespacedWrites {
    pub(crate) namespace: Arc<str>,
    pub(crate) writes: TaskWrites,
}

impl NamespacedWrites {
    pub(crate) fn into_record(self) -> WriteRecord {
        WriteRecord::Writes { namespace: self.namespace, writes: self.writes }
    }
}

impl TaskLog {
    pub(crate) fn new(committer: Arc<Committer>, namespace: Arc<str>) -> Self {
        Self { id: committer.deferred.new_log(), committer, namespace, held: Mutex::default(), heads: Mutex::default() }
    }

    /// Returns true if records are held until the run ends.
    pub(crate) fn holds(&self) -> bool {
        self.committer.durability == Durability::Exit
    }

    /// Stores the result of a task, or holds it until the run ends.
    pub(crate) async fn write(&self, writes: TaskWrites) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            return Ok(());
        }
        self.committer.commit(vec![self.record(writes)]).await
    }

    pub(crate) fn heads(&self) -> Option<Arc<Kept>> {
        lock(&self.heads).clone()
    }

    pub(crate) fn set_heads(&self, heads: Option<Arc<Kept>>) {
        *lock(&self.heads) = heads;
    }

    /// Records the checkpoint from which the subgraph with this segment continues.
    pub(crate) fn set_head(&self, segment: &str, checkpoint: Uuid) {
        Arc::make_mut(lock(&self.heads).get_or_insert_default()).insert(segment.into(), checkpoint);
    }

    /// Stores the result of a task at once, after all queued records. Holds it if records are held until the run ends.
    pub(crate) async fn write_now(&self, writes: TaskWrites) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            return Ok(());
        }
        self.committer.commit_now(vec![self.record(writes)]).await
    }

    /// Stores the result of a task together with writes to a stored checkpoint of this or an outer graph, in one
    /// commit. If records are held until the end of the run, stores the writes to an outer graph first.
    pub(crate) async fn write_with(
        &self,
        writes: TaskWrites,
        around: Option<NamespacedWrites>,
    ) -> Result<(), SaverError> {
        match around {
            None => self.write(writes).await,
            // Boxed, because few tasks take this path, and otherwise the future of every task would be larger.
            Some(around) => Box::pin(self.write_both(writes, around)).await,
        }
    }

    async fn write_both(&self, writes: TaskWrites, around: NamespacedWrites) -> Result<(), SaverError> {
        if !self.holds() {
            return self.committer.commit(vec![self.record(writes), around.into_record()]).await;
        }
        lock(&self.held).push(writes);
        if around.namespace == self.namespace {
            return self.write(around.writes).await;
        }
        self.committer.commit(vec![around.into_record()]).await
    }

    /// Stores a result and takes a message out of the inbox. If `fresh` is false, an earlier attempt may have taken the
    /// message already.
    pub(crate) async fn write_taking(&self, writes: TaskWrites, message: Uuid, fresh: bool) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            self.reserve(message);
            return Ok(());
        }
        let is_there = fresh || self.committer.mail().await?.iter().any(|posted| posted.message.id == message);
        let taken = is_there.then_some(message).into_iter().collect();
        self.committer.commit_also(vec![self.record(writes)], SideEffects::taking(taken)).await
    }

    /// Like [`Self::write_with`], for a task that waits until its thread is due.
    pub(crate) async fn write_due(
        &self,
        writes: TaskWrites,
        around: Option<NamespacedWrites>,
        due: Option<SystemTime>,
    ) -> Result<(), SaverError> {
        self.committer.note_waiting();
        let Some(at) = due else { return self.write_with(writes, around).await };
        let due = DueChange::NoLaterThan { at, graph: self.committer.graph.clone() };
        if self.holds() {
            self.committer.hold(|also| also.due = Some(earlier(also.due.take(), due)));
            return self.write_with(writes, around).await;
        }
        let records = [self.record(writes)].into_iter().chain(around.map(NamespacedWrites::into_record));
        self.committer.commit_also(records.collect(), SideEffects::due(due)).await
    }

    /// Like [`Self::write_now`], for a task that waits in place until this time. If its process is killed, another
    /// process finds the thread due after this time and resumes it.
    pub(crate) async fn write_until(&self, writes: TaskWrites, until: SystemTime) -> Result<(), SaverError> {
        if self.holds() {
            return self.write_now(writes).await;
        }
        self.committer.note_waiting();
        let due = DueChange::Driven { until, graph: self.committer.graph.clone() };
        match self.committer.commit_also(vec![self.record(writes.clone())], SideEffects::due(due)).await {
            // A saver without timers can still store the result.
            Err(SaverError::NotSupported { .. }) => self.write_now(writes).await,
            stored => stored,
        }
    }

    pub(crate) fn record(&self, writes: TaskWrites) -> WriteRecord {
        WriteRecord::Writes { namespace: self.namespace.clone(), writes }
    }

    /// Takes a message when the run ends.
    pub(crate) fn reserve(&self, message: Uuid) {
        self.committer.deferred.reserve(self.id, message);
    }

    /// Returns true if the records of this graph must wait for the end of the run, because a graph of the run takes
    /// messages.
    pub(crate) fn is_deferred(&self) -> bool {
        self.holds() && self.committer.deferred.waits(self.id)
    }

    /// Passes these records, and those that wait in this log, to the log of the outer graph.
    pub(crate) fn hand_up(&self, outer: &Self, records: Vec<WriteRecord>) {
        self.committer.deferred.hand_up(self.id, outer.id, records);
    }

    /// Drops all records that were neither stored nor passed to the outer log. Messages stay in the inbox.
    pub(crate) fn forget(&self) {
        if self.holds() {
            self.committer.deferred.forget(self.id);
        }
    }

    /// Drops the held results of tasks whose superstep has been applied. The held checkpoint contains their effect.
    pub(crate) fn drop_applied(&self) {
        lock(&self.held).clear();
        self.committer.deferred.drop_applied(self.id, &self.namespace);
    }

    /// Takes the records and the messages that wait in this log.
    pub(crate) fn take_deferred(&self) -> (Vec<WriteRecord>, Vec<Uuid>) {
        self.committer.deferred.take_of(self.id)
    }

    pub(crate) fn take_held(&self) -> Vec<TaskWrites> {
        std::mem::take(&mut lock(&self.held))
    }
}

fn earlier(before: Option<DueChange>, due: DueChange) -> DueChange {
    match (before, due) {
        (Some(DueChange::NoLaterThan { at: before, .. }), DueChange::NoLaterThan { at, graph }) => {
            DueChange::NoLaterThan { at: at.min(before), graph }
        }
        (_, due) => due,
    }
}
