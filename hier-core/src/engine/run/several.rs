//! A step of several tasks, and how it ends.

use std::sync::Arc;

use crate::engine::attempt::report::started;
use crate::engine::durable::load::Reader;
use crate::engine::durable::resumed::{Before, Resumed};
use crate::engine::pool::Batch;
use crate::engine::program::{By, Checkpoints, Done, Inbox, Task, TaskKey};
use crate::engine::run::piece::{Ended, Tasks, ended};
use crate::engine::run::runner::{End, PAUSED, Runner};
use crate::engine::step::{Applied, StepTasks};
use crate::engine::stream::event::{Event, NodeUpdate, StreamMode};
use crate::engine::stream::outcome::StopReason;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::policy::{PartialStep, StepPolicy, WideStep};
use crate::question::Question;
use crate::state::{Update, Values};

/// What is known of a step that is taken up again.
struct Known<S: Values> {
    /// How the tasks ended that do not run again, with their places.
    ended: Vec<(usize, Ended<S>)>,
    /// Those that run.
    open: Vec<(usize, Arc<Inbox>)>,
    /// For each task the first slot that it has not written.
    slots: Vec<i32>,
}

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// A step of any number of tasks.
    pub(in crate::engine) async fn several(&mut self) -> Result<Option<End>, RunError> {
        let step = self.position.step(self.step);
        self.check_calls(&step)?;
        // The run that began the step has reported its tasks.
        let namespace = &self.task.run.shared.namespace;
        let quiet = self.step_policy().is_some_and(|policy| policy.partial_step(namespace).is_some());
        if !quiet {
            self.tell_started(&step);
        }
        let offered = self.resumed.as_ref().is_some_and(|resumed| resumed.anyone.is_some());
        let known = self.resumed.take().map(|resumed| self.known(&step, &resumed, quiet)).transpose()?;
        if self.journal.is_none() && known.is_none() {
            let results = self.run_all(step, None).await?;
            return self.conclude(results.into_iter().map(|(_, result)| result));
        }
        let keys: Vec<TaskKey> = step.keys().collect();
        let (mut results, open, mut slots) = match known {
            Some(Known { ended, open, slots }) => (ended, Some(open), slots),
            None => (Vec::new(), None, vec![0; keys.len()]),
        };
        let mut open = open;
        let mut part = None;
        let policy = self.step_policy().cloned();
        if let Some(policy) = policy.as_deref() {
            if !offered && self.runs_elsewhere(policy, &keys, open.as_deref()) {
                return Ok(Some(End::Stopped(StopReason::Drained(PAUSED.to_owned()))));
            }
            part = policy.partial_step(&self.task.run.shared.namespace);
            if let Some(part) = &part {
                let all = || (0..keys.len()).map(|place| (place, Arc::default())).collect();
                open = Some(self.divide(part, &keys, open.take().unwrap_or_else(all), &mut results));
            }
        }
        let places: Option<Vec<usize>> = open.as_ref().map(|open| open.iter().map(|(place, _)| *place).collect());
        let count = open.as_ref().map_or(keys.len(), Vec::len);
        let wide = policy.as_deref().filter(|_| count > 1).map(WideStep::begin);
        for (place, result) in self.run_all(step, open).await? {
            let place = places.as_ref().map_or(place, |places| places[place]);
            if let Ok(task) = &result {
                // Its writes, and where it leads.
                slots[place] += i32::try_from(task.done.writes.len() + 1).unwrap_or(i32::MAX);
            }
            results.push((place, result));
        }
        drop(wide);
        results.sort_by_key(|(place, _)| *place);
        if let (Some(PartialStep::Task { task, .. }), Some(policy)) = (&part, policy.as_deref()) {
            let is_it = |place: usize| *self.task.graph.plan.path(keys[place]) == **task;
            let ended = results.into_iter().find(|(place, _)| is_it(*place)).map(|(_, result)| result);
            return self.end_of_task(policy, ended).map(Some);
        }
        if let (Some(_), Some(policy)) = (&part, policy.as_deref()) {
            policy.partial_step_done();
            if count == 0 {
                policy.only_applies();
            }
        }
        let concluded = self.conclude(results.into_iter().map(|(_, result)| result));
        if let Err(RunError::Reduce { .. } | RunError::Conflict { .. }) = &concluded {
            self.void(&keys, &slots).await?;
        }
        concluded
    }

    /// Returns true if the next step, which has not begun, runs elsewhere.
    pub(super) fn hands_out(&self, policy: &dyn StepPolicy) -> bool {
        if self.journal.is_none() || self.position.single().is_some() {
            return false;
        }
        let step = self.position.step(self.step);
        // The run that begins the step reports what is wrong with it.
        if self.check_calls(&step).is_err() || !self.runs_elsewhere(policy, &step.keys().collect::<Vec<_>>(), None) {
            return false;
        }
        self.tell_started(&step);
        true
    }

    /// What is known of the tasks of a step that is taken up again.
    fn known(&self, step: &StepTasks, resumed: &Resumed, quiet: bool) -> Result<Known<S>, RunError> {
        let (graph, thread) = (&*self.task.graph, self.task.run.shared.config.thread_id().unwrap_or_default());
        let reader = Reader { graph, thread };
        let mut known = Known { ended: Vec::new(), open: Vec::new(), slots: Vec::new() };
        for (place, key) in step.keys().enumerate() {
            known.slots.push(resumed.free_slot(&graph.plan.path(key)));
            match resumed.task(&reader, &*self.task.state, key)? {
                Before::Done(done) => {
                    if !quiet {
                        self.tell_cached(key.node, &done);
                    }
                    known.ended.push((place, ended(key, Ok(done))));
                }
                Before::Waits(questions) => {
                    if let Some(emitter) = self.emitter.as_ref().filter(|_| !quiet) {
                        emitter.interrupted(&questions);
                    }
                    let error = NodeError::from_kind(NodeErrorKind::Interrupt(questions), false);
                    known.ended.push((place, Err((key.node, error))));
                }
                Before::Open(inbox) => known.open.push((place, inbox)),
            }
        }
        Ok(known)
    }

    /// Calls of a graph that keeps its state for the whole thread have one state: a step can have one of them.
    fn check_calls(&self, step: &StepTasks) -> Result<(), RunError> {
        let graph = &*self.task.graph;
        let keeps =
            |node: usize| graph.nodes[node].checkpoints == Checkpoints::PerThread && graph.child(node).is_some();
        for node in (0..graph.nodes.len()).filter(|node| self.journal.is_some() && keeps(*node)) {
            let calls = step.keys().filter(|key| key.node == node).count();
            if calls > 1 {
                let (graph, node) = (self.graph_name(), graph.plan.name(node).to_owned());
                return Err(RunError::SharedCalls { graph, node, calls });
            }
        }
        Ok(())
    }

    fn tell_started(&self, step: &StepTasks) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) else { return };
        for (place, key) in step.keys().enumerate() {
            emitter.task(started(&self.task.sibling(key, step.arg(place))));
        }
    }

    /// Reports the earlier result of a task.
    fn tell_cached(&self, node: usize, done: &Done<S>) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Updates)) else { return };
        let name = self.task.graph.plan.name(node);
        let node = if done.by == By::Handler { format!("__error_handler__{name}") } else { name.to_owned() };
        let update = S::Update::from_writes(done.writes.clone());
        emitter.emit(Event::Updates(NodeUpdate { node, update, cached: true }));
    }

    /// Decides whether the open tasks of the step run elsewhere.
    fn runs_elsewhere(&self, policy: &dyn StepPolicy, keys: &[TaskKey], open: Option<&[(usize, Arc<Inbox>)]>) -> bool {
        if self.task.run.shared.anyone.as_ref().is_some_and(|anyone| anyone.waits()) {
            // The answer is for the first that asks, and only here it is seen which that is.
            return false;
        }
        let plan = &self.task.graph.plan;
        let is_open = |place: &usize| open.is_none_or(|open| open.iter().any(|(other, _)| other == place));
        let away =
            (0..keys.len()).filter(|place| is_open(place) && policy.may_run_elsewhere(plan.name(keys[*place].node)));
        policy.runs_elsewhere(&self.task.run.shared.namespace, away.map(|place| plan.path(keys[place])).collect())
    }

    /// Returns the tasks of a partial step that run. Adds the known ends of the other tasks to the results.
    fn divide(
        &self,
        part: &PartialStep,
        keys: &[TaskKey],
        open: Vec<(usize, Arc<Inbox>)>,
        results: &mut Vec<(usize, Ended<S>)>,
    ) -> Vec<(usize, Arc<Inbox>)> {
        let plan = &self.task.graph.plan;
        let mut runs = Vec::new();
        for (place, inbox) in open {
            let path = plan.path(keys[place]);
            let asked = || inbox.questions.iter().filter(|question| !question.answered).cloned().collect();
            let ended: Vec<Question> = match part {
                PartialStep::Task { task, .. } if *task == path => {
                    runs.push((place, inbox));
                    continue;
                }
                PartialStep::Task { .. } => continue,
                PartialStep::Rest { stopped, .. } if stopped.contains(&path) => Vec::new(),
                PartialStep::Rest { .. } if inbox.questions.iter().any(|question| !question.answered) => asked(),
                PartialStep::Rest { .. } => {
                    runs.push((place, inbox));
                    continue;
                }
            };
            let error = NodeError::from_kind(NodeErrorKind::Interrupt(ended), false);
            results.push((place, Err((keys[place].node, error))));
        }
        runs
    }

    /// Returns the end of a run that did one task. The task may have ended in an earlier attempt whose result was lost on the way.
    fn end_of_task(&self, policy: &dyn StepPolicy, ended: Option<Ended<S>>) -> Result<End, RunError> {
        let stopped = || End::Stopped(StopReason::Drained(PAUSED.to_owned()));
        match ended {
            None | Some(Ok(_)) => {}
            Some(Err((node, error))) => match error.kind() {
                NodeErrorKind::Interrupt(asked) if asked.is_empty() => return Ok(self.stopped_inside()),
                NodeErrorKind::Interrupt(asked) => return Ok(End::Interrupted(asked.clone())),
                _ => return Err(self.failed(node, error)),
            },
        }
        policy.partial_step_done();
        Ok(stopped())
    }

    /// Runs the tasks of a step, or those of them that are open, and returns how they ended, in order.
    async fn run_all(
        &self,
        step: StepTasks,
        open: Option<Vec<(usize, Arc<Inbox>)>>,
    ) -> Result<Vec<(usize, Ended<S>)>, RunError> {
        let tasks = Tasks::new(self.task.clone(), self.emitter.clone(), step, open);
        let count = tasks.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let limit = self.task.run.shared.config.max_concurrency.unwrap_or(usize::MAX);
        let results = Batch::run(count, tasks, limit, &self.task.run.shared.tracker).await;
        results.map_err(|_| RunError::NoRuntime { graph: self.graph_name() })
    }

    /// The end of a step: applied if all its tasks have just ended; else the first error in task order, or a command for
    /// the parent, or questions.
    pub(in crate::engine) fn conclude(
        &mut self,
        results: impl Iterator<Item = Ended<S>>,
    ) -> Result<Option<End>, RunError> {
        let mut questions = Vec::new();
        let mut interrupted = false;
        let (mut parent, mut failed) = (None, None);
        // A list of results becomes this one in place.
        let done = results.filter_map(|result| match result {
            Ok(mut task) => match task.done.destinations.as_mut().and_then(|destinations| destinations.parent.take()) {
                Some(command) => {
                    parent.get_or_insert(End::Parent(task.node?, command));
                    None
                }
                None => Some(task),
            },
            Err((node, error)) => {
                if let NodeErrorKind::Interrupt(asked) = error.kind() {
                    interrupted = true;
                    questions.extend(asked.iter().cloned());
                } else {
                    failed.get_or_insert((node, error));
                }
                None
            }
        });
        let mut ended: Vec<Applied<S>> = done.collect();
        if let Some((node, error)) = failed {
            return Err(self.failed(node, error));
        }
        if parent.is_some() {
            return Ok(parent);
        }
        if !interrupted {
            let written = self.apply(&mut ended)?;
            self.emit_values_of(written, &ended);
            return Ok(None);
        }
        // Whoever asks for the state sees what the other tasks have done meanwhile, as in the reference.
        let Task { graph, state, .. } = &mut self.task;
        let written = self.position.preview(graph, Arc::make_mut(state), &mut ended);
        self.emit_values_of(written, &ended);
        Ok(Some(if questions.is_empty() { self.stopped_inside() } else { End::Interrupted(questions) }))
    }
}
