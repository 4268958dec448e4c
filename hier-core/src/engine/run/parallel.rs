use std::sync::Arc;

use crate::engine::attempt::report;
use crate::engine::durable::resumed::{ResumedStep, TaskProgress};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::pool::{TaskBatch, in_order};
use crate::engine::program::{Checkpoints, Task, TaskKey};
use crate::engine::run::batch_tasks::{BatchTasks, FailedTask, OpenTask, TaskEnd, task_end};
use crate::engine::run::partial::paused;
use crate::engine::run::runner::{GraphEnd, GraphRunner};
use crate::engine::step::{Applied, StepTasks};
use crate::engine::stream::event::StreamMode;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::policy::{ParallelStep, PartialStep, PartialStepEnd, PausedRun, StepPolicy};
use crate::state::Values;

/// The known tasks of a durable superstep. In the first run of a superstep, no task has ended.
struct KnownTasks<S: Values> {
    /// The ends of tasks that do not run again, with their places.
    ended: Vec<(usize, TaskEnd<S>)>,
    /// None if all tasks of the superstep run.
    open: Option<Vec<OpenTask>>,
    /// The first free slot of each task.
    slots: Vec<i32>,
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    pub(super) async fn run_parallel(&mut self) -> Result<Option<GraphEnd>, RunError> {
        let step = self.position.step(self.step);
        self.check_calls(&step)?;
        let part = self.partial_step();
        // The run that began the superstep has reported the tasks.
        let is_quiet = part.is_some() || self.resumed.is_some() && self.paused_at() == PausedRun::InsideStep;
        if !is_quiet {
            self.emit_started(&step);
        }
        let resumed = self.resumed.take();
        if self.journal.is_none() && resumed.is_none() {
            let results = self.run_batch(step, None).await?;
            return self.finish_step(results.into_iter().map(|(_, result)| result));
        }
        let keys: Vec<TaskKey> = step.keys().collect();
        let has_answer = resumed.as_ref().is_some_and(|resumed| resumed.unaddressed.is_some());
        let known = match resumed {
            Some(resumed) => self.known_tasks(&keys, &resumed, is_quiet)?,
            None => KnownTasks { ended: Vec::new(), open: None, slots: vec![0; keys.len()] },
        };
        let policy = self.step_policy().cloned();
        let Some(policy) = policy.as_deref() else { return self.run_durably(step, &keys, known, None).await };
        if !has_answer && self.run_elsewhere(policy, &keys, known.open.as_deref()) {
            return Ok(Some(paused()));
        }
        match part {
            None => self.run_durably(step, &keys, known, Some(policy)).await,
            Some(part) => self.run_part(step, &keys, known, policy, &part).await,
        }
    }

    /// Runs the open tasks and finishes the superstep.
    async fn run_durably(
        &mut self,
        step: StepTasks,
        keys: &[TaskKey],
        mut known: KnownTasks<S>,
        policy: Option<&dyn StepPolicy>,
    ) -> Result<Option<GraphEnd>, RunError> {
        self.run_open(step, &mut known, policy).await?;
        let KnownTasks { ended, slots, .. } = known;
        let mut ends = ended.iter().map(|(_, end)| end.as_ref());
        self.enter_stored(ends.all(|end| end.is_ok_and(|task| !task.done.is_for_parent()))).await?;
        let finished = self.finish_step(ended.into_iter().map(|(_, end)| end));
        if let Err(RunError::Reduce { .. } | RunError::Conflict { .. }) = &finished {
            self.void_step(keys, &slots).await?;
        }
        finished
    }

    /// Runs a part of the superstep: one task, or the rest of the tasks. After the rest, finishes the superstep.
    async fn run_part(
        &mut self,
        step: StepTasks,
        keys: &[TaskKey],
        mut known: KnownTasks<S>,
        policy: &dyn StepPolicy,
        part: &PartialStep,
    ) -> Result<Option<GraphEnd>, RunError> {
        let open = self.tasks_of_part(part, keys, known.open.take(), &mut known.ended);
        let runs = !open.is_empty();
        known.open = Some(open);
        if let PartialStep::Task { task, .. } = part {
            self.run_open(step, &mut known, Some(policy)).await?;
            let is_it = |place: usize| *self.task.graph.plan.path(keys[place]) == **task;
            let end = known.ended.into_iter().find(|(place, _)| is_it(*place)).map(|(_, end)| end);
            return self.end_of_only_task(policy, end).map(Some);
        }
        let finished = self.run_durably(step, keys, known, Some(policy)).await;
        policy.end_partial_step(if runs { PartialStepEnd::StepRan } else { PartialStepEnd::StepOnlyApplied });
        finished
    }

    /// Runs the open tasks, and adds their ends to `known`.
    async fn run_open(
        &self,
        step: StepTasks,
        known: &mut KnownTasks<S>,
        policy: Option<&dyn StepPolicy>,
    ) -> Result<(), RunError> {
        let open = known.open.take();
        let places: Option<Vec<usize>> = open.as_ref().map(|open| open.iter().map(|task| task.place).collect());
        let count = open.as_ref().map_or(step.len(), Vec::len);
        let _parallel = policy.filter(|_| count > 1).map(ParallelStep::begin);
        for (place, end) in self.run_batch(step, open).await? {
            let place = places.as_ref().map_or(place, |places| places[place]);
            if let Ok(task) = &end {
                // One slot for each write, and one for the routing.
                known.slots[place] += i32::try_from(task.done.writes.len() + 1).unwrap_or(i32::MAX);
            }
            known.ended.push((place, end));
        }
        known.ended = in_order(std::mem::take(&mut known.ended));
        Ok(())
    }

    /// Reads the earlier progress of the tasks of a resumed superstep.
    fn known_tasks(&self, keys: &[TaskKey], resumed: &ResumedStep, is_quiet: bool) -> Result<KnownTasks<S>, RunError> {
        let (graph, thread) = (&*self.task.graph, self.task.run.shared.config.thread_id().unwrap_or_default());
        let reader = ThreadReader { graph, thread };
        let mut known = KnownTasks { ended: Vec::new(), open: None, slots: Vec::with_capacity(keys.len()) };
        let mut open = Vec::new();
        for (place, key) in keys.iter().copied().enumerate() {
            known.slots.push(resumed.pending.free_slot(&graph.plan.path(key)));
            match resumed.task(reader, &*self.task.state, key)? {
                TaskProgress::Done(done) => {
                    let emitter = self.emitter.as_ref().filter(|_| !is_quiet);
                    if let Some(emitter) = emitter.filter(|emitter| emitter.wants(StreamMode::Updates)) {
                        emitter.emit(report::update(graph.plan.name(key.node), &done, true));
                    }
                    known.ended.push((place, task_end(key, Ok(done))));
                }
                TaskProgress::Waits(questions) => {
                    if let Some(emitter) = self.emitter.as_ref().filter(|_| !is_quiet) {
                        emitter.interrupted(&questions);
                    }
                    let error = NodeError::from_kind(NodeErrorKind::Interrupt(questions), false);
                    known.ended.push((place, task_end(key, Err(error))));
                }
                TaskProgress::Open(resume) => open.push(OpenTask { place, resume }),
            }
        }
        known.open = Some(open);
        Ok(known)
    }

    /// Refuses several calls of a subgraph with checkpoints per thread in one superstep. They would share one state.
    pub(super) fn check_calls(&self, step: &StepTasks) -> Result<(), RunError> {
        let graph = &*self.task.graph;
        let is_per_thread =
            |node: usize| graph.nodes[node].checkpoints == Checkpoints::PerThread && graph.child(node).is_some();
        for node in (0..graph.nodes.len()).filter(|node| self.journal.is_some() && is_per_thread(*node)) {
            let calls = step.keys().filter(|key| key.node == node).count();
            if calls > 1 {
                let (graph, node) = (self.graph_name(), graph.plan.name(node).to_owned());
                return Err(RunError::SharedCalls { graph, node, calls });
            }
        }
        Ok(())
    }

    pub(super) fn emit_started(&self, step: &StepTasks) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) else { return };
        for (place, key) in step.keys().enumerate() {
            emitter.task(report::started(&self.task.sibling(key, step.arg(place))));
        }
    }

    /// Runs the tasks of a superstep, or only the open tasks. Returns their ends in order.
    async fn run_batch(
        &self,
        step: StepTasks,
        open: Option<Vec<OpenTask>>,
    ) -> Result<Vec<(usize, TaskEnd<S>)>, RunError> {
        let tasks = BatchTasks::new(self.task.clone(), self.emitter.clone(), step, open);
        let count = tasks.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let limit = self.task.run.shared.config.max_concurrency.unwrap_or(usize::MAX);
        let results = TaskBatch::run(count, tasks, limit, &self.task.run.shared.tracker).await;
        results.map_err(|_| RunError::NoRuntime { graph: self.graph_name() })
    }

    /// Applies a superstep if all its tasks have succeeded. Otherwise returns the first error in task order, a command
    /// for the parent, or the questions, in this order of precedence.
    pub(super) fn finish_step(&mut self, ends: impl Iterator<Item = TaskEnd<S>>) -> Result<Option<GraphEnd>, RunError> {
        let mut questions = Vec::new();
        let mut interrupted = false;
        let (mut parent, mut failed) = (None, None);
        // Collecting reuses the allocation of the list of ends.
        let done = ends.filter_map(|end| match end {
            Ok(mut task) => match task.done.destinations.as_mut().and_then(|destinations| destinations.parent.take()) {
                Some(command) => {
                    parent.get_or_insert(GraphEnd::Parent(task.node?, command));
                    None
                }
                None => Some(task),
            },
            Err(FailedTask { node, error }) => {
                if let NodeErrorKind::Interrupt(asked) = error.kind() {
                    interrupted = true;
                    questions.extend(asked.iter().cloned());
                } else {
                    failed.get_or_insert((node, error));
                }
                None
            }
        });
        let mut done: Vec<Applied<S>> = done.collect();
        if let Some((node, error)) = failed {
            return Err(self.failed(node, error));
        }
        if parent.is_some() {
            return Ok(parent);
        }
        if !interrupted {
            let written = self.apply(&mut done)?;
            self.emit_values_of(written, &done);
            return Ok(None);
        }
        // As in LangGraph, the state shows the waiting input and the results of the other tasks.
        let Task { graph, state, .. } = &mut self.task;
        self.position.show_input(&graph.plan, &mut done);
        let written = self.position.preview(graph, Arc::make_mut(state), &mut done);
        if !self.task.is_paused() {
            self.emit_values_of(written, &done);
        }
        Ok(Some(if questions.is_empty() { self.stopped_inside() } else { GraphEnd::Interrupted(questions) }))
    }
}
