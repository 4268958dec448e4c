//! The durable side of a runner: checkpoints, breakpoints, records of tasks.

use std::fmt::Display;
use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{SideEffects, Source, TaskWrites, WriteRecord};
use crate::engine::attempt::record::failed;
use crate::engine::attempt::route::merge;
use crate::engine::attempt::stored::Failed;
use crate::engine::durable::journal::StepMetadata;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Task, TaskKey};
use crate::engine::run::runner::{End, Runner, TaskResult};
use crate::engine::step::Returns;
use crate::engine::stream::event::{CheckpointEvent, Event, StreamMode};
use crate::engine::stream::outcome::StopReason;
use crate::error::RunError;
use crate::state::{Values, Writes};

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// A task that ran alone and did not end well writes down why. One that did is part of the step's checkpoint.
    #[inline]
    pub(in crate::engine) async fn note_failure(&self, result: &TaskResult<S>) -> Result<(), RunError> {
        let (Err(_), Some(log)) = (result, &self.task.run.shared.log) else { return Ok(()) };
        log.ended(&self.task, result).await.map_err(|error| self.failed(self.task.run.key.node, error))
    }

    /// Stores a step that has been applied.
    pub(in crate::engine) async fn store_step(&mut self) -> Result<(), RunError> {
        let drained = if self.task.graph.inbox.is_some() { Box::pin(self.drain()).await } else { Ok(Vec::new()) };
        // The results of the step's tasks are stored even if the mailbox has a bad message.
        let (taken, refused) = drained.map_or_else(|error| (Vec::new(), Some(error)), |taken| (taken, None));
        let record: Vec<WriteRecord> = self.step_record(Source::Loop)?.into_iter().collect();
        if !taken.is_empty() {
            Box::pin(self.commit_drained(record, taken)).await?;
        } else if self.is_last() {
            self.commit_last(record).await?;
        } else {
            self.commit(record).await?;
        }
        if self.emitter.is_some() {
            self.emit_checkpoint(self.step, Source::Loop);
        }
        self.offer_answer();
        if let Some(policy) = self.step_policy() {
            policy.stored(&self.task.run.shared.namespace);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Writes the messages of the mailbox to the inbox, and returns their ids. They are taken with the checkpoint of the step that has
    /// just been applied. After the last step they wait for the next run. An error changes nothing.
    pub(in crate::engine) async fn drain(&mut self) -> Result<Vec<Uuid>, RunError> {
        let (Some(inbox), Some(journal)) = (self.task.graph.inbox, &self.journal) else { return Ok(Vec::new()) };
        if self.is_child() || self.position.is_over() {
            return Ok(Vec::new());
        }
        let waiting = journal.log.committer.mail().await.map_err(|error| journal.saver(error))?;
        let (mut taken, mut writes) = (Vec::new(), Writes::<S>::new());
        for posted in waiting.into_iter().filter(|posted| posted.message.signal.is_none()) {
            let write = self.task.state.write_from(inbox, false, &posted.message.value);
            writes.push(write.map_err(|error| self.no_message(posted.message.id, error))?);
            taken.push(posted.message.id);
        }
        if !taken.is_empty() {
            self.check_messages(&taken, &writes)?;
            let Task { graph, state, .. } = &mut self.task;
            self.position.apply_outside(graph, Arc::make_mut(state), writes)?;
            self.emit_values();
        }
        Ok(taken)
    }

    /// Checks that the inbox channel accepts these messages, one after the other.
    fn check_messages(&self, letters: &[Uuid], writes: &Writes<S>) -> Result<(), RunError> {
        let mut state = S::clone(&self.task.state);
        for (letter, write) in letters.iter().zip(writes) {
            merge(&mut state, write).map_err(|error| self.no_message(*letter, error))?;
        }
        Ok(())
    }

    fn no_message(&self, letter: Uuid, error: impl Display) -> RunError {
        let thread = self.task.run.shared.config.thread_id().unwrap_or_default().to_owned();
        let reason = format!(
            "the message `{letter}` in its mailbox is nothing that the inbox takes any more: {error}; remove it with \
             `graph.discard(\"{thread}\", id)` or `hier discard {thread} {letter}`, or let the channel take it"
        );
        RunError::Incompatible { graph: self.graph_name(), thread, reason }
    }

    /// Stores a checkpoint that has messages from outside, and takes these in the same instant.
    pub(in crate::engine) async fn commit_drained(
        &self,
        records: Vec<WriteRecord>,
        taken: Vec<Uuid>,
    ) -> Result<(), RunError> {
        match &self.journal {
            Some(journal) if journal.log.holds() => taken.into_iter().for_each(|letter| journal.log.reserve(letter)),
            _ => return self.commit_taking(records, SideEffects::taking(taken)).await,
        }
        Ok(())
    }

    /// The checkpoint of the step that has just been applied.
    pub(in crate::engine) fn step_record(&mut self, source: Source) -> Result<Option<WriteRecord>, RunError> {
        let metadata = StepMetadata { step: self.step, source, agenda: self.position.agenda(&self.task.graph)? };
        let Some(journal) = &mut self.journal else { return Ok(None) };
        self.position.stored();
        let Some(mut changes) = self.position.ledger.changes.take() else { return Ok(None) };
        let mut fresh = self.position.ledger.returned.as_ref().map(Returns::fresh).unwrap_or_default();
        let record = journal.step(&*self.task.state, &mut changes, (self.position.input(), &mut fresh), metadata);
        let ledger = &mut self.position.ledger;
        ledger.changes = Some(changes);
        ledger.returned.iter_mut().for_each(|returned| returned.note(&fresh));
        record
    }

    pub(in crate::engine) async fn commit(&self, records: Vec<WriteRecord>) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else { return Ok(()) };
        journal.log.committer.commit(records).await.map_err(|error| journal.saver(error))
    }

    /// Whether nothing is stored after the step that has just been applied: it was the root's last, and no task is left.
    fn is_last(&self) -> bool {
        !self.is_child()
            && self.position.is_over()
            && self.step_policy().is_none()
            && self.task.run.shared.tracker.is_empty()
    }

    /// Stores the last records of the run.
    async fn commit_last(&self, records: Vec<WriteRecord>) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else { return Ok(()) };
        journal.log.committer.commit_last(records).await.map_err(|error| journal.saver(error))
    }

    /// Stores records, and what is changed beside them.
    pub(in crate::engine) async fn commit_taking(
        &self,
        records: Vec<WriteRecord>,
        also: SideEffects,
    ) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !also.is_empty()) else {
            return self.commit(records).await;
        };
        journal.log.committer.commit_also(records, also).await.map_err(|error| journal.saver(error))
    }

    /// Stores what was kept for the end of the run, and what graphs inside have left to it.
    pub(in crate::engine) async fn store_held(&mut self) -> Result<(), RunError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let graph = self.task.graph.clone();
        let own = journal.take_held(|| (graph.initial)())?;
        let (mut records, taken) = journal.log.take_deferred();
        records.extend(own);
        let mut also = journal.log.committer.take_held();
        also.taken = taken;
        self.commit_taking(records, also).await
    }

    /// Stores what a graph inside kept for the end of its call; or leaves it to the graph around it, if letters are taken with it.
    pub(in crate::engine) async fn store_call(&mut self, outer: Option<&TaskLog>) -> Result<(), RunError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let graph = self.task.graph.clone();
        let records = journal.take_held(|| (graph.initial)())?;
        match outer.filter(|_| journal.log.is_deferred()) {
            Some(outer) => journal.log.hand_up(outer, records),
            None => return self.commit(records).await,
        }
        Ok(())
    }

    /// What tasks have done, in slots below these, cannot be applied: it counts as not done.
    pub(in crate::engine) async fn void(&mut self, keys: &[TaskKey], slots: &[i32]) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let checkpoint = journal.base.unwrap_or_default();
        let plan = &self.task.graph.plan;
        for (key, slot) in keys.iter().zip(slots) {
            let task = self.task.sibling(*key, None);
            let message = "its writes could not be applied".to_owned();
            let entry = failed(&Failed { message, void: Some(*slot), ..Failed::default() })
                .map_err(|error| self.failed(key.node, error))?;
            let (path, writes) = (plan.path(*key).into(), vec![entry]);
            let writes = TaskWrites { checkpoint, task: task.run.task_id(), path, writes };
            journal.log.write(writes).await.map_err(|error| journal.saver(error))?;
        }
        Ok(())
    }

    /// A new input takes the place of what was to run next.
    pub(in crate::engine) fn discard(&mut self) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.discard(graph, Arc::make_mut(state), &mut [])
    }

    /// Whether the run stops after the step that has just been applied.
    #[inline]
    pub(in crate::engine) fn stops_after(&mut self) -> Option<End> {
        let passed = self.breakpoints.as_mut()?.passed();
        let plan = &self.task.graph.plan;
        let hit: Vec<String> = passed.map(|node| plan.name(node).to_owned()).collect();
        if hit.is_empty() { None } else { Some(self.break_at(StopReason::After(hit))) }
    }

    /// A graph that a node runs has stopped at a breakpoint.
    pub(in crate::engine) fn stopped_inside(&self) -> End {
        End::Stopped(StopReason::Before(self.next()))
    }

    pub(in crate::engine) fn emit_checkpoint(&self, step: i64, source: Source) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Checkpoints)) else {
            return;
        };
        let Some((id, parent)) = self.journal.as_ref().and_then(|journal| Some((journal.base?, journal.before))) else {
            return;
        };
        let starts = source == Source::Input || self.position.has_input();
        let next = if starts { vec![hier_spec::START.to_owned()] } else { self.next() };
        let state = self.task.state.clone();
        emitter.emit(Event::Checkpoint(CheckpointEvent { id, parent, step, source, state, next }));
    }
}
