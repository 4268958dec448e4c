//! A step of several tasks, and how it ends.

use std::sync::Arc;

use crate::engine::attempt::report::started;
use crate::engine::durable::load::Reader;
use crate::engine::durable::resumed::{Before, Resumed};
use crate::engine::pool::Batch;
use crate::engine::program::{By, Checkpoints, Done, Inbox, Task, TaskKey};
use crate::engine::run::piece::{Ended, Tasks, ended};
use crate::engine::run::runner::{End, Runner};
use crate::engine::step::{Applied, StepTasks};
use crate::engine::stream::event::{Event, NodeUpdate, StreamMode};
use crate::error::{NodeError, NodeErrorKind, RunError};
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
        self.tell_started(&step);
        let known = self.resumed.take().map(|resumed| self.known(&step, &resumed)).transpose()?;
        if self.journal.is_none() && known.is_none() {
            let results = self.run_all(step, None).await?;
            return self.conclude(results.into_iter().map(|(_, result)| result));
        }
        let keys: Vec<TaskKey> = step.keys().collect();
        let (mut results, open, mut slots) = match known {
            Some(Known { ended, open, slots }) => (ended, Some(open), slots),
            None => (Vec::new(), None, vec![0; keys.len()]),
        };
        let places: Option<Vec<usize>> = open.as_ref().map(|open| open.iter().map(|(place, _)| *place).collect());
        for (place, result) in self.run_all(step, open).await? {
            let place = places.as_ref().map_or(place, |places| places[place]);
            if let Ok(task) = &result {
                // Its writes, and where it leads.
                slots[place] += i32::try_from(task.done.writes.len() + 1).unwrap_or(i32::MAX);
            }
            results.push((place, result));
        }
        results.sort_by_key(|(place, _)| *place);
        let concluded = self.conclude(results.into_iter().map(|(_, result)| result));
        if let Err(RunError::Reduce { .. } | RunError::Conflict { .. }) = &concluded {
            self.void(&keys, &slots).await?;
        }
        concluded
    }

    /// What is known of the tasks of a step that is taken up again.
    fn known(&self, step: &StepTasks, resumed: &Resumed) -> Result<Known<S>, RunError> {
        let (graph, thread) = (&*self.task.graph, self.task.run.shared.config.thread_id().unwrap_or_default());
        let reader = Reader { graph, thread };
        let mut known = Known { ended: Vec::new(), open: Vec::new(), slots: Vec::new() };
        for (place, key) in step.keys().enumerate() {
            known.slots.push(resumed.free_slot(&graph.plan.path(key)));
            match resumed.task(&reader, &*self.task.state, key)? {
                Before::Done(done) => {
                    self.tell_cached(key.node, &done);
                    known.ended.push((place, ended(key, Ok(done))));
                }
                Before::Waits(questions) => {
                    if let Some(emitter) = &self.emitter {
                        emitter.interrupted(&questions);
                    }
                    let error = NodeError::from_kind(NodeErrorKind::Interrupt(questions), false);
                    known.ended.push((place, Err((key.node, error))));
                }
                Before::Open(inbox) => known.open.push((place, Arc::new(inbox))),
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
            emitter.started(started(&self.task.sibling(key, step.arg(place))));
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
