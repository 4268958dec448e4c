//! Supersteps with tasks that a [`StepPolicy`] runs elsewhere.

use std::sync::Arc;

use crate::engine::program::TaskKey;
use crate::engine::run::batch_tasks::{FailedTask, OpenTask, TaskEnd};
use crate::engine::run::runner::{GraphEnd, GraphRunner, PAUSED};
use crate::engine::stream::outcome::StopReason;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::policy::{PartialStep, PartialStepEnd, PlannedTask, StepPolicy};
use crate::question::Question;
use crate::state::Values;

/// Returns the end of a run that its policy has paused.
pub(super) fn paused() -> GraphEnd {
    GraphEnd::Stopped(StopReason::Drained(PAUSED.to_owned()))
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Returns the part of the open superstep that this run executes. Returns `None` if the policy sets no limit.
    pub(super) fn partial_step(&self) -> Option<PartialStep> {
        self.step_policy()?.partial_step(&self.task.run.shared.namespace)
    }

    /// Offers the tasks of the next superstep to the policy. The superstep has not begun.
    pub(super) fn offer_next_step(&self, policy: &dyn StepPolicy) {
        if self.journal.is_none() || self.position.single().is_some() {
            return;
        }
        let step = self.position.step(self.step);
        // The run that begins the superstep reports the error of `check_calls`.
        if self.check_calls(&step).is_ok() && self.run_elsewhere(policy, &step.keys().collect::<Vec<_>>(), None) {
            self.emit_started(&step);
        }
    }

    /// Returns true if the policy runs the open tasks of the superstep elsewhere.
    pub(super) fn run_elsewhere(&self, policy: &dyn StepPolicy, keys: &[TaskKey], open: Option<&[OpenTask]>) -> bool {
        if self.task.run.shared.unaddressed.as_ref().is_some_and(|answer| answer.waits()) {
            // The answer is for the first task that asks. Only a run that has all tasks knows this task.
            return false;
        }
        let plan = &self.task.graph.plan;
        let planned = |key: TaskKey| PlannedTask { node: plan.name(key.node).to_owned(), place: plan.path(key) };
        let tasks = match open {
            Some(open) => open.iter().map(|task| planned(keys[task.place])).collect(),
            None => keys.iter().copied().map(planned).collect(),
        };
        policy.run_elsewhere(&self.task.run.shared.namespace, tasks)
    }

    /// Returns the tasks of a partial superstep that must run. Adds the tasks that wait or have stopped to `ends`.
    pub(super) fn tasks_of_part(
        &self,
        part: &PartialStep,
        keys: &[TaskKey],
        open: Option<Vec<OpenTask>>,
        ends: &mut Vec<(usize, TaskEnd<S>)>,
    ) -> Vec<OpenTask> {
        let all = || (0..keys.len()).map(|place| OpenTask { place, resume: Arc::default() }).collect();
        let (plan, mut runs) = (&self.task.graph.plan, Vec::new());
        for task in open.unwrap_or_else(all) {
            let path = plan.path(keys[task.place]);
            let open_questions = || task.resume.questions.iter().filter(|question| !question.answered);
            let asked: Vec<Question> = match part {
                PartialStep::Task { task: only, .. } if *only != path => continue,
                PartialStep::Rest { stopped, .. } if stopped.contains(&path) => Vec::new(),
                PartialStep::Rest { .. } if open_questions().next().is_some() => open_questions().cloned().collect(),
                PartialStep::Task { .. } | PartialStep::Rest { .. } => {
                    runs.push(task);
                    continue;
                }
            };
            let error = NodeError::from_kind(NodeErrorKind::Interrupt(asked), false);
            ends.push((task.place, Err(FailedTask { node: keys[task.place].node, error })));
        }
        runs
    }

    /// Returns the end of a run that executed one task. `end` is `None` if the superstep has no such task. Then the
    /// task counts as stored, because an earlier attempt may have stored it without the caller receiving the result.
    pub(super) fn end_of_only_task(
        &self,
        policy: &dyn StepPolicy,
        end: Option<TaskEnd<S>>,
    ) -> Result<GraphEnd, RunError> {
        if let Some(Err(FailedTask { node, error })) = end {
            let NodeErrorKind::Interrupt(asked) = error.kind() else { return Err(self.failed(node, error)) };
            policy.end_partial_step(PartialStepEnd::TaskWaits);
            let is_asked = !asked.is_empty();
            return Ok(if is_asked { GraphEnd::Interrupted(asked.clone()) } else { self.stopped_inside() });
        }
        policy.end_partial_step(PartialStepEnd::TaskStored);
        Ok(paused())
    }
}
