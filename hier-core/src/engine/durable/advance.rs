//! What a runner does beside running, if the run is durable; and breakpoints.

use fixedbitset::FixedBitSet;

use super::Pending;
use super::book::failed;
use super::journal::Stride;
use super::load::{Last, Reader};
use super::open::{Opened, Routes};
use super::pending::Failed;
use crate::checkpoint::{Agenda, CodecError, Record, Source, TaskWrites};
use crate::config::Config;
use crate::engine::event::{CheckpointEvent, Event, NodeUpdate, StreamMode};
use crate::engine::outcome::StopReason;
use crate::engine::program::{By, Done, Inbox, Jump, Plan, TaskKey};
use crate::engine::runner::{Breakpoints, End, Runner, TaskResult};
use crate::error::RunError;
use crate::question::Question;
use crate::state::{Update, Values, Writes};

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// A task that ran alone and did not end well writes down why. One that did is part of the step's checkpoint.
    #[inline]
    pub(in crate::engine) async fn note_failure(&self, result: &TaskResult<S>) -> Result<(), RunError> {
        let (Err(_), Some(book)) = (result, &self.task.run.shared.book) else { return Ok(()) };
        book.ended(&self.task, result).await.map_err(|error| self.failed(self.task.run.key.node, error))
    }

    /// Stores a step that has been applied.
    pub(in crate::engine) async fn store_step(&mut self, single: Option<usize>) -> Result<(), RunError> {
        if let Some(node) = single {
            self.last = Last::Node(node);
        }
        let record = self.step_record(Source::Loop)?;
        if let Some(record) = record {
            self.commit(vec![record]).await?;
        }
        if self.emitter.is_some() {
            self.emit_checkpoint(self.step, Source::Loop);
        }
        Ok(())
    }

    /// The checkpoint of the step that has just been applied.
    pub(super) fn step_record(&mut self, source: Source) -> Result<Option<Record>, RunError> {
        let stride = Stride { step: self.step, source, agenda: self.agenda(self.start.is_some())? };
        let Some(journal) = &mut self.journal else { return Ok(None) };
        let Some(notes) = &mut self.ledger.notes else { return Ok(None) };
        let returned = self.ledger.returned.as_deref().unwrap_or_default();
        let fresh: Vec<S::Write> =
            returned[self.stored_returns.min(returned.len())..].iter().map(|(_, write)| write.clone()).collect();
        self.stored_returns = returned.len();
        journal.step(&*self.task.state, notes, &fresh, stride)
    }

    /// What is to run next, by name.
    pub(super) fn agenda(&self, start: bool) -> Result<Agenda, RunError> {
        let plan = &self.task.graph.plan;
        let mut agenda = Agenda { start, last: self.last.record(plan), ..Agenda::default() };
        self.frontier.note(plan, &mut agenda);
        for send in &self.sends {
            let record = super::pending::send_record(plan, send).map_err(|error| RunError::Encode {
                graph: self.graph_name(),
                what: format!("what was sent to node `{}`", plan.name(send.0)),
                reason: error.to_string(),
            })?;
            agenda.sends.push(record);
        }
        Ok(agenda)
    }

    pub(super) async fn commit(&self, records: Vec<Record>) -> Result<(), RunError> {
        let Some(journal) = self.journal.as_ref().filter(|_| !records.is_empty()) else { return Ok(()) };
        journal.book.committer.commit(records).await.map_err(|error| journal.saver(error))
    }

    /// Stores what was kept for the end of the run.
    pub(in crate::engine) async fn store_held(&mut self) -> Result<(), RunError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let graph = self.task.graph.clone();
        let records = journal.take_held(|| (graph.initial)())?;
        self.commit(records).await
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
            journal.book.write(writes).await.map_err(|error| journal.saver(error))?;
        }
        Ok(())
    }

    /// A new input takes the place of what was to run next.
    pub(super) fn discard(&mut self) {
        let plan = self.task.graph.plan.clone();
        if !self.frontier.ready().is_empty() || !self.sends.is_empty() || self.start.is_some() {
            // It counts as a step: what expires with one is gone.
            self.ledger.expire(std::sync::Arc::make_mut(&mut self.task.state));
        }
        self.frontier.discard(&plan);
        self.sends.clear();
        self.start = None;
    }

    /// Applies what callers' commands wrote, and follows where they led. What is to run next stays.
    pub(super) fn apply_command(&mut self, writes: Writes<S>, routes: &[Routes]) -> Result<(), RunError> {
        let graph = self.task.graph.clone();
        if !writes.is_empty() {
            let state = std::sync::Arc::make_mut(&mut self.task.state);
            self.ledger.apply_outside(&graph.plan, &graph.channels, state, writes)?;
        }
        for (go, sends) in routes {
            for node in go {
                self.frontier.signal(&graph.plan, *node);
            }
            if !sends.is_empty() {
                // What was sent is a topic: new items take the place of old ones, as in the reference.
                self.sends.clone_from(sends);
            }
        }
        self.frontier.sort();
        Ok(())
    }

    /// Whether the run stops after the step that has just been applied.
    #[inline]
    pub(in crate::engine) fn stops_after(&mut self, single: Option<usize>) -> Option<End> {
        let breakpoints = self.breakpoints.as_mut()?;
        breakpoints.armed = true;
        let ran: Vec<usize> = single.map_or_else(|| std::mem::take(&mut self.ran), |node| vec![node]);
        let plan = &self.task.graph.plan;
        let hit: Vec<String> = ran
            .iter()
            .filter(|node| breakpoints.after.contains(**node))
            .map(|node| plan.name(*node).to_owned())
            .collect();
        if hit.is_empty() { None } else { Some(self.break_at(StopReason::After(hit))) }
    }

    /// A graph that a node runs has stopped at a breakpoint.
    pub(in crate::engine) fn stopped_inside(&self) -> End {
        End::Stopped(StopReason::Before(self.next()))
    }

    pub(super) fn emit_checkpoint(&self, step: i64, source: Source) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Checkpoints)) else {
            return;
        };
        let Some((id, parent)) = self.journal.as_ref().and_then(|journal| Some((journal.base?, journal.before))) else {
            return;
        };
        let starts = source == Source::Input || self.start.is_some();
        let next = if starts { vec![hier_spec::START.to_owned()] } else { self.next() };
        let state = self.task.state.clone();
        emitter.emit(Event::Checkpoint(CheckpointEvent { id, parent, step, source, state, next }));
    }
}

/// Where a caller's command goes.
pub(super) fn resolve_jumps(plan: &Plan, jumps: &[Jump]) -> Result<Routes, RunError> {
    let (mut go, mut sends) = (Vec::new(), Vec::new());
    for jump in jumps {
        let Some(name) = &jump.node else { continue };
        let node = plan.find(name).ok_or_else(|| RunError::Update {
            graph: plan.graph().to_owned(),
            reason: format!(
                "the command goes to `{name}`, which is no node{}",
                hier_spec::did_you_mean(name, plan.names())
            ),
        })?;
        match &jump.parcel {
            Some(parcel) => sends.push((node, parcel.clone())),
            None => go.push(node),
        }
    }
    Ok((go, sends))
}

/// Gives tasks back what they have done before.
pub(crate) struct Reuse {
    pending: Pending,
    /// Whether tasks that are done are taken as done.
    trusts: bool,
    opened: Opened,
}

impl Reuse {
    pub(in crate::engine) fn new<S: Values, C>(_runner: &Runner<S, C>, mut opened: Opened) -> Self {
        let pending = std::mem::take(&mut opened.pending);
        Self { trusts: opened.reuse, pending, opened }
    }

    /// The first slot that a task has not written.
    pub(in crate::engine) fn free_slot<S: Values, C: Send + Sync + 'static>(
        &self,
        runner: &Runner<S, C>,
        key: TaskKey,
    ) -> i32 {
        self.pending.free_slot(&runner.task.graph.plan.path(key))
    }

    /// What is known of a task: what it has done, or what it has to know to go on.
    pub(in crate::engine) fn task<S: Values, C: Send + Sync + 'static>(
        &mut self,
        runner: &Runner<S, C>,
        key: TaskKey,
    ) -> Result<Before<S>, RunError> {
        let graph = &*runner.task.graph;
        let thread = runner.task.run.shared.config.thread_id().unwrap_or_default();
        let reader = Reader { graph, thread };
        let unfit = |error: CodecError| reader.unfit(error);
        let place = &*graph.plan.path(key);
        if self.trusts {
            let find = |name: &str| reader.node(name);
            let done =
                self.pending.done(place, runner.task.state(), find, |name| reader.channel(name)).map_err(unfit)?;
            if let Some(done) = done {
                tell_cached(runner, key.node, &done);
                return Ok(Before::Done(done));
            }
        }
        let mut inbox = self.pending.inbox(place).map_err(unfit)?;
        if let Some(open) = &self.opened.open {
            inbox.questions.iter_mut().for_each(|question| question.answered = !open.contains(&question.id));
            if !inbox.questions.is_empty() && inbox.questions.iter().all(|question| !question.answered) {
                if let Some(emitter) = &runner.emitter {
                    emitter.interrupted(&inbox.questions);
                }
                return Ok(Before::Waits(inbox.questions));
            }
        }
        if !self.trusts {
            inbox.failure = None;
        }
        inbox.anyone.clone_from(&self.opened.anyone);
        Ok(Before::Open(inbox))
    }
}

/// What is known of a task when its step is taken up again.
pub(crate) enum Before<S: Values> {
    /// It is done.
    Done(Done<S>),
    /// It waits for the answers to these: others have been answered, and it does not run before it is.
    Waits(Vec<Question>),
    /// It runs.
    Open(Inbox),
}

/// Tells what a task has done before.
fn tell_cached<S: Values, C>(runner: &Runner<S, C>, node: usize, done: &Done<S>) {
    let Some(emitter) = runner.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Updates)) else { return };
    let name = runner.task.graph.plan.name(node);
    let node = if done.by == By::Handler { format!("__error_handler__{name}") } else { name.to_owned() };
    let update = S::Update::from_writes(done.writes.clone());
    emitter.emit(Event::Updates(NodeUpdate { node, update, cached: true }));
}

impl Breakpoints {
    /// Those of the graph; none if it has none.
    pub(in crate::engine) fn of(plan: &Plan) -> Option<Box<Self>> {
        let any = !plan.before.is_clear() || !plan.after.is_clear();
        any.then(|| Box::new(Self { before: plan.before.clone(), after: plan.after.clone(), armed: true }))
    }

    /// Those of the configuration, where it names some; else those of the graph.
    pub(in crate::engine) fn configured(plan: &Plan, config: &Config) -> Result<Option<Box<Self>>, RunError> {
        let set = |names: &Option<Vec<String>>, declared: &FixedBitSet| {
            let Some(names) = names else { return Ok(declared.clone()) };
            let mut set = FixedBitSet::with_capacity(plan.len());
            for name in names {
                let node = plan.find(name).ok_or_else(|| {
                    let tail = hier_spec::did_you_mean(name, plan.names());
                    RunError::Config(format!(
                        "a breakpoint is at `{name}`, which is no node of graph `{}`{tail}",
                        plan.graph()
                    ))
                })?;
                set.insert(node);
            }
            Ok(set)
        };
        let before = set(&config.interrupt_before, &plan.before)?;
        let after = set(&config.interrupt_after, &plan.after)?;
        let any = !before.is_clear() || !after.is_clear();
        Ok(any.then(|| Box::new(Self { before, after, armed: true })))
    }
}
