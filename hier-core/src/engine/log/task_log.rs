//! Where tasks write down what they have done, as soon as they have done it.

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
    /// The records that are stored when the run ends, if nothing is stored before.
    held: Mutex<Vec<TaskWrites>>,
    /// Which checkpoints the subgraphs that keep their state go on from; none if the graph has no such subgraph.
    kept: Mutex<Option<Arc<Kept>>>,
}

/// What belongs to a checkpoint of a graph, this one or one around it.
pub(crate) struct Around {
    pub(crate) namespace: Arc<str>,
    pub(crate) writes: TaskWrites,
}

impl Around {
    fn record(self) -> WriteRecord {
        WriteRecord::Writes { namespace: self.namespace, writes: self.writes }
    }
}

impl TaskLog {
    pub(crate) fn new(committer: Arc<Committer>, namespace: Arc<str>) -> Self {
        Self { id: committer.deferred.new_log(), committer, namespace, held: Mutex::default(), kept: Mutex::default() }
    }

    /// Whether records are kept until the run ends.
    pub(crate) fn holds(&self) -> bool {
        self.committer.durability == Durability::Exit
    }

    /// Stores what a task has done.
    pub(crate) async fn write(&self, writes: TaskWrites) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            return Ok(());
        }
        self.committer.commit(vec![self.record(writes)]).await
    }

    /// What the graph's subgraphs keep.
    pub(crate) fn kept(&self) -> Option<Arc<Kept>> {
        lock(&self.kept).clone()
    }

    /// What the graph's subgraphs keep where the run takes it up.
    pub(crate) fn keep_all(&self, kept: Option<Arc<Kept>>) {
        *lock(&self.kept) = kept;
    }

    /// From now on a subgraph goes on from this checkpoint.
    pub(crate) fn keep(&self, level: &str, checkpoint: Uuid) {
        Arc::make_mut(lock(&self.kept).get_or_insert_default()).insert(level.into(), checkpoint);
    }

    /// Stores what a task has done, and comes back when it is stored: behind everything that waits to be stored in the background.
    pub(crate) async fn write_now(&self, writes: TaskWrites) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            return Ok(());
        }
        self.committer.commit_now(vec![self.record(writes)]).await
    }

    /// The same, with what belongs to a checkpoint of this graph or of one around it, which is stored already: both in one commit.
    /// What is kept until the end of the run is stored after what belongs to a graph around this one.
    pub(crate) async fn write_with(&self, writes: TaskWrites, around: Option<Around>) -> Result<(), SaverError> {
        match around {
            None => self.write(writes).await,
            // Boxed, since few tasks need it and all would hold its room.
            Some(around) => Box::pin(self.write_both(writes, around)).await,
        }
    }

    async fn write_both(&self, writes: TaskWrites, around: Around) -> Result<(), SaverError> {
        if !self.holds() {
            return self.committer.commit(vec![self.record(writes), around.record()]).await;
        }
        lock(&self.held).push(writes);
        if around.namespace == self.namespace {
            return self.write(around.writes).await;
        }
        self.committer.commit(vec![around.record()]).await
    }

    /// Like [`Self::write_now`], and takes a letter out of the thread's mailbox. If it is not `fresh`, an earlier attempt to take it may
    /// have succeeded.
    pub(crate) async fn write_taking(&self, writes: TaskWrites, letter: Uuid, fresh: bool) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            self.reserve(letter);
            return Ok(());
        }
        let is_there = fresh || self.committer.mail().await?.iter().any(|posted| posted.message.id == letter);
        let taken = is_there.then_some(letter).into_iter().collect();
        self.committer.commit_also(vec![self.record(writes)], SideEffects::taking(taken)).await
    }

    /// Stores that a task waits, and that the thread is due then, as [`Self::write_with`].
    pub(crate) async fn write_due(
        &self,
        writes: TaskWrites,
        around: Option<Around>,
        due: Option<SystemTime>,
    ) -> Result<(), SaverError> {
        self.committer.waits();
        let Some(at) = due else { return self.write_with(writes, around).await };
        let due = DueChange::NoLaterThan { at, graph: self.committer.graph.clone() };
        if self.holds() {
            self.committer.hold(|also| also.due = Some(earlier(also.due.take(), due)));
            return self.write_with(writes, around).await;
        }
        let records = [self.record(writes)].into_iter().chain(around.map(Around::record));
        self.committer.commit_also(records.collect(), SideEffects::due(due)).await
    }

    /// Like [`Self::write_now`], for a task that waits in place until then. If this process is killed meanwhile, a process that finds the
    /// thread due resumes it.
    pub(crate) async fn write_until(&self, writes: TaskWrites, until: SystemTime) -> Result<(), SaverError> {
        if self.holds() {
            return self.write_now(writes).await;
        }
        self.committer.waits();
        let due = DueChange::Driven { until, graph: self.committer.graph.clone() };
        match self.committer.commit_also(vec![self.record(writes.clone())], SideEffects::due(due)).await {
            // A saver without timers can still store it.
            Err(SaverError::NotSupported { .. }) => self.write_now(writes).await,
            stored => stored,
        }
    }

    pub(crate) fn record(&self, writes: TaskWrites) -> WriteRecord {
        WriteRecord::Writes { namespace: self.namespace.clone(), writes }
    }

    /// What is stored of this graph at the end of the run takes a letter.
    pub(crate) fn reserve(&self, letter: Uuid) {
        self.committer.deferred.reserve(self.id, letter);
    }

    /// Whether what this graph stores waits for the end of the run, since letters are taken with it.
    pub(crate) fn is_deferred(&self) -> bool {
        self.holds() && self.committer.deferred.waits(self.id)
    }

    /// Leaves these records, and what graphs inside have left, to the graph around this one.
    pub(crate) fn hand_up(&self, outer: &Self, records: Vec<WriteRecord>) {
        self.committer.deferred.hand_up(self.id, outer.id, records);
    }

    /// Forgets what was neither stored nor left to the graph around this one: the letters stay where they are.
    pub(crate) fn forget(&self) {
        if self.holds() {
            self.committer.deferred.forget(self.id);
        }
    }

    /// A step of this graph has been applied, and is part of what is kept until the end of the run: what its tasks have done is needed no
    /// more, nor what the graphs have left that they ran.
    pub(crate) fn settle(&self) {
        lock(&self.held).clear();
        self.committer.deferred.settle(self.id, &self.namespace);
    }

    /// Takes what graphs inside have left, and the letters that are taken with it.
    pub(crate) fn take_deferred(&self) -> (Vec<WriteRecord>, Vec<Uuid>) {
        self.committer.deferred.take(self.id)
    }

    /// Takes the records that were kept for the end of the run.
    pub(crate) fn take_held(&self) -> Vec<TaskWrites> {
        std::mem::take(&mut lock(&self.held))
    }
}

/// Returns the earlier of two due times: the thread is due for the first of several waiting tasks.
fn earlier(before: Option<DueChange>, due: DueChange) -> DueChange {
    match (before, due) {
        (Some(DueChange::NoLaterThan { at: before, .. }), DueChange::NoLaterThan { at, graph }) => {
            DueChange::NoLaterThan { at: at.min(before), graph }
        }
        (_, due) => due,
    }
}
