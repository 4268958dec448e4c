//! Continues a thread where it stopped. The caller may add answers, an update or other destinations.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{DueChange, SideEffects, Source, TaskWrites, WriteRecord, slot};
use crate::config::Config;
use crate::engine::attempt::resolve;
use crate::engine::attempt::stored::{self, RoutingRecord};
use crate::engine::durable::answer::{AnswerRouter, RoutedAnswers};
use crate::engine::durable::commands::CommandEffect;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::resumed::{ResumeMode, ResumedStep};
use crate::engine::log::task_log::NamespacedWrites;
use crate::engine::program::{Command, UnaddressedAnswer};
use crate::engine::run::commit::StepCommit;
use crate::engine::run::resume::OpenThread;
use crate::engine::run::runner::GraphRunner;
use crate::error::{NodeError, RunError};
use crate::policy::{GraphEntry, PausedRun};
use crate::state::Values;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Continuation {
    /// The open superstep of the latest checkpoint continues. Finished tasks do not run again.
    OpenStep,
    /// The superstep of an older checkpoint runs again, with the answers of its tasks.
    OldStep,
    /// A checkpoint that `update_state` has made runs again under its id. Earlier results and answers do not count.
    Replay,
    /// A copy of the checkpoint continues.
    Fork,
}

impl Continuation {
    fn choose(config: &Config, thread: &OpenThread, has_answers: bool) -> Self {
        if config.checkpoint.is_none() {
            return Self::OpenStep;
        }
        match (has_answers, thread.is_newest) {
            (true, true) => Self::OpenStep,
            (true, false) => Self::OldStep,
            (false, true) if matches!(thread.checkpoint.source, Source::Update | Source::Fork) => Self::Replay,
            (false, _) => Self::Fork,
        }
    }
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    pub(super) async fn continue_thread(
        &mut self,
        mut thread: OpenThread,
        mut command: Option<Command<S>>,
    ) -> Result<(), RunError> {
        let config = self.task.run.shared.config.clone();
        let has_answers = command.as_ref().is_some_and(|command| command.answers.is_some());
        let continuation = Continuation::choose(&config, &thread, has_answers);
        if self.readable(thread.pending.has_command_of(config.author()))? {
            // The effect and the answers were read with the checkpoint.
            command = None;
        }
        let by = config.author().filter(|_| command.is_some());
        let Command { writes, jumps, answers, .. } = command.unwrap_or_default();
        let RoutedAnswers { writes: answered, unaddressed } = match &answers {
            Some(answers) => AnswerRouter::new(self.reader(), &thread.pending, &thread.checkpoint, thread.is_newest)?
                .route(answers)?,
            None => RoutedAnswers::default(),
        };
        let destinations = vec![resolve::from_outside(&self.task.graph.plan, jumps)?];
        let effect = CommandEffect { writes, destinations };

        let mut records = self.absorb(&mut thread.pending, answered);
        let mut also = SideEffects::default();
        if config.checkpoint.is_none() {
            let woken = self.wake(&thread.pending).await?;
            records.extend(self.absorb(&mut thread.pending, woken));
            also.due = self.driven();
        }
        if !records.is_empty() {
            // If the program cannot read the results of the superstep, it must not accept the answer.
            thread.pending.check(self.reader(), &*self.task.state)?;
        }
        let stored_effect = (continuation != Continuation::Fork).then_some(&effect);
        let stored = self.caller_record(&thread, unaddressed.as_ref(), stored_effect, by);
        records.extend(stored.map_err(|error| self.unsaved(&error))?);
        self.apply_commands(effect)?;
        self.commit_now(records, also).await?;

        self.enter_at(thread.checkpoint.step.saturating_add(1), GraphEntry::Resume);
        let (source, after) = (thread.checkpoint.source, &*thread.checkpoint.agenda.stops_after);
        match continuation {
            Continuation::Fork => {
                self.fork().await?;
                self.resume_step(None, Source::Fork, after);
            }
            Continuation::Replay => {
                self.void_results(&mut thread.pending).await?;
                let pending = thread.pending;
                let resumed = ResumedStep { pending, mode: ResumeMode::Afresh, unaddressed: None, open: None };
                self.resume_step(Some(resumed), source, after);
            }
            Continuation::OpenStep | Continuation::OldStep => {
                self.keep_heads_of_open_calls(&thread.pending, thread.checkpoint.step).await?;
                let unaddressed = match (unaddressed, answers) {
                    (None, None) => self.readable(thread.pending.unaddressed_answer())?,
                    (unaddressed, _) => unaddressed,
                };
                let checkpoint = thread.checkpoint.id;
                let unaddressed =
                    unaddressed.map(|answer| Arc::new(UnaddressedAnswer::new(answer, "".into(), checkpoint)));
                let open = self.readable(thread.pending.open_next_to_answered())?;
                let mode =
                    if continuation == Continuation::OpenStep { ResumeMode::Continue } else { ResumeMode::Again };
                let resumed = ResumedStep { pending: thread.pending, mode, unaddressed, open };
                // A run that was paused between two supersteps begins the next superstep like an uninterrupted run.
                let is_between = self.paused_at() == PausedRun::BetweenSteps;
                let is_fresh = is_between && resumed.pending.is_empty() && resumed.unaddressed.is_none();
                self.resume_step((!is_fresh).then_some(resumed), source, after);
            }
        }
        Ok(())
    }

    /// Adds new writes of this graph to the records of the open superstep. Returns the records of all writes for the
    /// commit.
    fn absorb(&self, pending: &mut Pending, writes: Vec<NamespacedWrites>) -> Vec<WriteRecord> {
        let Some(journal) = &self.journal else { return Vec::new() };
        let own = writes.iter().filter(|writes| *writes.namespace == *journal.log.namespace);
        own.for_each(|own| pending.absorb(own.writes.clone()));
        writes.into_iter().map(NamespacedWrites::into_record).collect()
    }

    /// Answers the tasks whose time or signal has come.
    async fn wake(&self, pending: &Pending) -> Result<Vec<NamespacedWrites>, RunError> {
        let Some(journal) = &self.journal else { return Ok(Vec::new()) };
        let committer = &journal.log.committer;
        if !committer.has_waited() {
            return Ok(Vec::new());
        }
        let mail = committer.mail().await.map_err(|error| journal.saver(error))?;
        pending.woken(self.task.run.shared.config.now(), &mail).map_err(|error| self.unsaved(&error))
    }

    /// Marks the thread as due when the lease expires, if a task waits or has waited for a time or a signal. If the
    /// process of the run is killed, a sweeper finds the thread.
    fn driven(&self) -> Option<DueChange> {
        let committer = &self.journal.as_ref()?.log.committer;
        let until = self.task.run.shared.config.now().checked_add(committer.lease.lasts)?;
        committer.has_waited().then(|| DueChange::Driven { until, graph: committer.graph.clone() })
    }

    /// Returns the record of a command and of an answer for the first task that asks. The record is stored with the
    /// checkpoint, which does not change. A command without effect is stored only for `by`, the run that made it.
    fn caller_record(
        &self,
        thread: &OpenThread,
        unaddressed: Option<&serde_json::Value>,
        effect: Option<&CommandEffect<S>>,
        by: Option<[u8; 6]>,
    ) -> Result<Option<WriteRecord>, NodeError> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let mut list = Vec::new();
        if let Some(answer) = unaddressed {
            list.push(stored::entry(slot::RESUME, stored::RESUME, answer)?);
        }
        if let Some(CommandEffect { writes, destinations }) = effect {
            let first = thread.pending.free_command_slot();
            for destinations in destinations {
                let has_effect = !writes.is_empty() || !destinations.go.is_empty() || !destinations.sends.is_empty();
                if has_effect || by.is_some() {
                    list.append(&mut stored::writes(first, writes)?);
                    let end = first.saturating_add(i32::try_from(writes.len()).unwrap_or(i32::MAX));
                    let routing = RoutingRecord::new(&self.task.graph, writes, destinations, false)?;
                    list.push(stored::entry(end, stored::ROUTING, &RoutingRecord { by, ..routing })?);
                }
            }
        }
        let (checkpoint, task) = (thread.checkpoint.id, Uuid::nil());
        let record = TaskWrites { checkpoint, task, path: "~".into(), writes: list };
        Ok((!record.writes.is_empty()).then(|| journal.log.record(record)))
    }

    async fn fork(&mut self) -> Result<(), RunError> {
        let records = self.checkpoint(Source::Fork)?.into_iter().collect();
        self.commit(StepCommit { records, ..StepCommit::default() }).await?;
        self.step = self.step.saturating_add(1);
        Ok(())
    }

    /// Voids the results and answers of tasks that run again under the id of their checkpoint.
    async fn void_results(&self, pending: &mut Pending) -> Result<(), RunError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let void = pending.void().map_err(|error| self.unsaved(&error))?;
        if void.is_empty() {
            return Ok(());
        }
        let records = void.iter().cloned().map(|writes| journal.log.record(writes)).collect();
        self.commit_now(records, SideEffects::default()).await?;
        void.into_iter().filter(|writes| !writes.task.is_nil()).for_each(|writes| pending.absorb(writes));
        Ok(())
    }

    fn readable<T>(&self, read: Result<T, crate::checkpoint::CodecError>) -> Result<T, RunError> {
        read.map_err(|error| self.reader().unfit(error))
    }

    fn unsaved(&self, error: &NodeError) -> RunError {
        RunError::Encode { graph: self.graph_name(), what: "the command".to_owned(), reason: error.to_string() }
    }
}
