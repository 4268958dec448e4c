//! A step of several tasks, and how it ends.

use std::sync::Arc;

use crate::engine::attempt::exec::in_batch;
use crate::engine::attempt::report::started;
use crate::engine::durable::load::Reader;
use crate::engine::durable::resumed::Before;
use crate::engine::pool::Batch;
use crate::engine::program::{By, Checkpoints, Done, Inbox, SendArg, Task, TaskKey};
use crate::engine::run::runner::{End, Runner, TaskResult};
use crate::engine::step::Applied;
use crate::engine::stream::event::{Event, NodeUpdate, StreamMode};
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::state::{Update, Values};

/// A task of a step, before it runs.
struct Planned {
    key: TaskKey,
    arg: Option<SendArg>,
    inbox: Option<Arc<Inbox>>,
}

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// A step of any number of tasks.
    pub(in crate::engine) async fn several(&mut self) -> Result<Option<End>, RunError> {
        let keys: Vec<TaskKey> = self.position.tasks(self.step).collect();
        self.check_calls(&keys)?;
        let plan = |key: &TaskKey| Planned { key: *key, arg: self.position.take_arg(*key), inbox: None };
        let mut tasks: Vec<Planned> = keys.iter().map(plan).collect();
        let mut results: Vec<Option<TaskResult<S>>> = std::iter::repeat_with(|| None).take(tasks.len()).collect();
        let mut slots = vec![0; tasks.len()];
        self.tell_started(&tasks);
        if let Some(resumed) = self.resumed.take() {
            let (graph, thread) =
                (self.task.graph.clone(), self.task.run.shared.config.thread_id().unwrap_or_default());
            let reader = Reader { graph: &*graph, thread };
            for ((task, result), slot) in tasks.iter_mut().zip(&mut results).zip(&mut slots) {
                *slot = resumed.free_slot(&graph.plan.path(task.key));
                match resumed.task(&reader, &*self.task.state, task.key)? {
                    Before::Done(done) => {
                        self.tell_cached(task.key.node, &done);
                        *result = Some(Ok(done));
                    }
                    Before::Waits(questions) => {
                        if let Some(emitter) = &self.emitter {
                            emitter.interrupted(&questions);
                        }
                        *result = Some(Err(NodeError::from_kind(NodeErrorKind::Interrupt(questions), false)));
                    }
                    Before::Open(inbox) => task.inbox = Some(Arc::new(inbox)),
                }
            }
        }
        let open: Vec<usize> = (0..keys.len()).filter(|place| results[*place].is_none()).collect();
        let run = tasks.into_iter().enumerate().filter(|(place, _)| results[*place].is_none()).map(|(_, task)| task);
        for (place, result) in open.into_iter().zip(self.run_all(run.collect()).await?) {
            if let Some(Ok(done)) = &result {
                // Its writes, and where it leads.
                slots[place] += i32::try_from(done.writes.len() + 1).unwrap_or(i32::MAX);
            }
            results[place] = result;
        }
        let results = keys.iter().copied().zip(results).filter_map(|(key, result)| Some((key, result?)));
        let concluded = self.conclude(results);
        if let Err(RunError::Reduce { .. } | RunError::Conflict { .. }) = &concluded {
            self.void(&keys, &slots).await?;
        }
        concluded
    }

    /// Calls of a graph that keeps its state for the whole thread have one state: a step can have one of them.
    fn check_calls(&self, keys: &[TaskKey]) -> Result<(), RunError> {
        let graph = &*self.task.graph;
        let keeps =
            |node: usize| graph.nodes[node].checkpoints == Checkpoints::PerThread && graph.child(node).is_some();
        for node in (0..graph.nodes.len()).filter(|node| self.journal.is_some() && keeps(*node)) {
            let calls = keys.iter().filter(|key| key.node == node).count();
            if calls > 1 {
                let (graph, node) = (self.graph_name(), graph.plan.name(node).to_owned());
                return Err(RunError::SharedCalls { graph, node, calls });
            }
        }
        Ok(())
    }

    fn tell_started(&self, tasks: &[Planned]) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) else { return };
        for Planned { key, arg, .. } in tasks {
            emitter.started(started(&self.task.sibling(*key, arg.clone())));
        }
    }

    /// Tells what a task has done before.
    fn tell_cached(&self, node: usize, done: &Done<S>) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Updates)) else { return };
        let name = self.task.graph.plan.name(node);
        let node = if done.by == By::Handler { format!("__error_handler__{name}") } else { name.to_owned() };
        let update = S::Update::from_writes(done.writes.clone());
        emitter.emit(Event::Updates(NodeUpdate { node, update, cached: true }));
    }

    /// Runs these tasks and returns their results in order.
    async fn run_all(&self, tasks: Vec<Planned>) -> Result<Vec<Option<TaskResult<S>>>, RunError> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let (template, emitter) = (self.task.clone(), self.emitter.clone());
        let count = tasks.len();
        let mut tasks = tasks.into_iter();
        let start = move || {
            let Planned { key, arg, inbox } = tasks.next()?;
            let mut task: Task<S, C> = template.sibling(key, arg);
            task.run.inbox = inbox;
            Some(in_batch(task, emitter.clone()))
        };
        let limit = self.task.run.shared.config.max_concurrency.unwrap_or(usize::MAX);
        let results = Batch::run(count, start, limit, &self.task.run.shared.tracker).await;
        results.map_err(|_| RunError::NoRuntime { graph: self.graph_name() })
    }

    /// The end of a step: applied if all its tasks have just ended; else the first error in task order, or a command for
    /// the parent, or questions.
    pub(in crate::engine) fn conclude(
        &mut self,
        results: impl Iterator<Item = (TaskKey, TaskResult<S>)>,
    ) -> Result<Option<End>, RunError> {
        let mut ended = Vec::with_capacity(results.size_hint().1.unwrap_or_default());
        let mut questions = Vec::new();
        let mut interrupted = false;
        let mut parent = None;
        for (key, result) in results {
            match result {
                Ok(mut done) => match done.destinations.as_mut().and_then(|destinations| destinations.parent.take()) {
                    Some(command) => parent = parent.or(Some(End::Parent(key.node, command))),
                    None => ended.push(Applied { node: Some(key.node), pushed: key.send.is_some(), done }),
                },
                Err(error) => match error.kind() {
                    NodeErrorKind::Interrupt(asked) => {
                        interrupted = true;
                        questions.extend(asked.iter().cloned());
                    }
                    _ => return Err(self.failed(key.node, error)),
                },
            }
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
