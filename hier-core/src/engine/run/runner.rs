//! The loop that runs a graph, for runs, streams and subgraphs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use crate::checkpoint::{PendingWrite, Source};
use crate::engine::attempt::exec::{TaskResult, call_node, execute, execute_and_route, resolve};
use crate::engine::attempt::report::{is_traced, report, started, step_span, task_span};
use crate::engine::attempt::route::safely;
use crate::engine::attempt::stored;
use crate::engine::durable::journal::Journal;
use crate::engine::durable::resumed::ResumedStep;
use crate::engine::program::{By, Output, ParentCommand, Program, Routing, Run, RunShared, Task, TaskKey};
use crate::engine::run::batch_tasks::task_end;
use crate::engine::step::{Applied, Breakpoints, Position};
use crate::engine::stream::emitter::Emitter;
use crate::engine::stream::outcome::StopReason;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::policy::{GraphEntry, PausedRun, StepPolicy};
use crate::question::Question;
use crate::state::{Steps, Values};

/// One run of one graph. The input is superstep -1, START is superstep 0, and the first nodes run in superstep 1.
pub(crate) struct GraphRunner<S: Values, C> {
    /// The task of a superstep with one task. Also the template for the tasks of a parallel superstep.
    pub(crate) task: Task<S, C>,
    pub(in crate::engine) position: Position<S>,
    /// Reused for the routes of supersteps with one task.
    routing: Routing,
    /// The superstep that runs next or is running.
    pub(in crate::engine) step: i64,
    /// The last superstep that may run.
    pub(in crate::engine) stop: i64,
    pub(in crate::engine) emitter: Option<Arc<Emitter<S>>>,
    pub(in crate::engine) breakpoints: Option<Box<Breakpoints>>,
    /// None if the graph has no checkpoints in this run.
    pub(in crate::engine) journal: Option<Box<Journal>>,
    /// The earlier progress of the tasks of the first superstep of this run.
    pub(in crate::engine) resumed: Option<Box<ResumedStep>>,
    /// The open questions that a new input of a thread withdraws.
    pub(in crate::engine) withdrawn: Option<Box<[serde_json::Value]>>,
    has_thread_since: Instant,
    /// The writes of the only task of the last superstep. Set if the graph may be left after that task.
    pub(in crate::engine) last_task: Option<Vec<PendingWrite>>,
}

/// The end of a run without an error.
pub(crate) enum GraphEnd {
    Finished,
    Interrupted(Vec<Question>),
    Stopped(StopReason),
    /// A node returned a command for the parent. The number is the rank of the node.
    Parent(usize, Box<dyn ParentCommand>),
}

/// Longest time that a run may hold its thread if its nodes never wait.
const TURN: Duration = Duration::from_millis(1);

/// The reason of a stop that a policy requested.
pub(in crate::engine) const PAUSED: &str = "a pause between steps";

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    pub(crate) fn new(
        graph: Arc<Program<S, C>>,
        state: Arc<S>,
        shared: RunShared<C>,
        emitter: Option<Arc<Emitter<S>>>,
        is_child: bool,
    ) -> Self {
        let position = Position::new(&graph, is_child);
        let key = TaskKey { node: 0, step: 0, send: None };
        let breakpoints = Breakpoints::new(graph.plan.before.clone(), graph.plan.after.clone());
        let run = Run::of_task(Arc::new(shared), key);
        let task = Task { graph, state, run, arg: None, failure: None };
        let routing = Routing::default();
        let mut runner = Self {
            task,
            position,
            routing,
            step: 0,
            stop: 0,
            emitter,
            breakpoints,
            journal: None,
            resumed: None,
            withdrawn: None,
            has_thread_since: Instant::now(),
            last_task: None,
        };
        runner.set_step(-1);
        runner
    }

    /// Sets the next superstep. The run may execute this superstep, which is an input or has begun before. After it,
    /// the run may execute as many supersteps as the recursion limit allows.
    fn set_step(&mut self, step: i64) {
        let limit = i64::try_from(self.task.run.shared.config.recursion_limit).unwrap_or(i64::MAX).min(i64::MAX / 2);
        self.step = step;
        self.stop = step.saturating_add(limit + 1).min(i64::MAX - 1);
    }

    /// Enters or resumes the graph at this superstep. A policy counts the supersteps of all slices of a run together.
    pub(in crate::engine) fn enter_at(&mut self, step: i64, entry: GraphEntry) {
        self.set_step(step);
        if let Some(policy) = self.step_policy() {
            self.stop = policy.last_step(&self.task.run.shared.namespace, entry, self.stop);
        }
    }

    /// Uses the breakpoints of the configuration. Defaults to those of the graph.
    pub(in crate::engine) fn configure_breakpoints(&mut self) -> Result<(), RunError> {
        self.breakpoints = Breakpoints::configured(&self.task.graph.plan, &self.task.run.shared.config)?;
        Ok(())
    }

    #[inline]
    pub(in crate::engine) fn step_policy(&self) -> Option<&Arc<dyn StepPolicy>> {
        self.task.run.shared.config.step_policy.as_ref()
    }

    /// Returns the point at which the run that this run continues has paused.
    pub(super) fn paused_at(&self) -> PausedRun {
        self.step_policy().map_or(PausedRun::None, |policy| policy.continues(&self.task.run.shared.namespace))
    }

    /// Sets the state and the position that were stored.
    pub(super) fn restore(&mut self, journal: Journal, state: S, position: Position<S>) {
        self.journal = Some(Box::new(journal));
        self.task.state = Arc::new(state);
        self.position = position;
    }

    /// Continues with the superstep that follows a checkpoint. `source` and `stops_after` are those of the checkpoint.
    pub(super) fn resume_step(&mut self, resumed: Option<ResumedStep>, source: Source, stops_after: &[Arc<str>]) {
        self.resumed = resumed.map(Box::new);
        if let (Some(breakpoints), Some(journal)) = (&mut self.breakpoints, &self.journal) {
            // A run ends when it stops. At its own checkpoint, it may have died before it could stop.
            breakpoints.armed = source == Source::Loop && journal.clock.has_made(journal.base);
            let stops_after = stops_after.iter().filter(|_| breakpoints.armed);
            breakpoints.running = stops_after.filter_map(|node| self.task.graph.node(node).ok()).collect();
        }
        // For a run that was paused, these events were already sent before the pause.
        if self.paused_at() == PausedRun::None {
            self.emit_values();
            self.emit_checkpoint(self.step.saturating_sub(1), source);
        }
    }

    /// Returns the state. Clones the state only if it is still shared.
    pub(crate) fn into_state(self) -> S {
        Arc::unwrap_or_clone(self.task.state)
    }

    pub(super) fn run_start(&mut self) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        let written = self.position.begin(graph, Arc::make_mut(state), &mut self.routing)?;
        if written || self.position.is_child() {
            self.emit_values();
        }
        Ok(())
    }

    /// Runs supersteps until nothing is left to do.
    pub(crate) async fn drive(&mut self) -> Result<GraphEnd, RunError> {
        loop {
            if let Some(end) = self.stops_after() {
                return Ok(end);
            }
            if self.is_due_to_yield() {
                tokio::task::yield_now().await;
                self.has_thread_since = Instant::now();
            }
            if self.step > self.stop {
                return Err(RunError::RecursionLimit {
                    graph: self.graph_name(),
                    limit: self.task.run.shared.config.recursion_limit,
                    next: self.position.next(&self.task.graph.plan),
                });
            }
            let single = if self.resumed.is_none() { self.position.single() } else { None };
            if single.is_none() && self.position.is_over() {
                return Ok(GraphEnd::Finished);
            }
            if let Some(end) = self.stops() {
                return Ok(end);
            }
            self.set_steps();
            if let Some(heartbeat) = &self.task.run.shared.heartbeat {
                heartbeat.beat();
            }
            let end = match single {
                Some(node) if self.is_bare(node) => {
                    let task = &self.task;
                    match call_node(task, &task.graph.nodes[node].body).await {
                        Ok(Output { mut writes, gotos: None })
                            if self.position.is_simple(&self.task.graph.plan, node) =>
                        {
                            let Task { graph, state, .. } = &mut self.task;
                            let state = Arc::make_mut(state);
                            self.position.apply_simply(graph, state, node, &mut writes, &mut self.routing)?;
                            None
                        }
                        output => {
                            let result = output.and_then(|output| resolve(&self.task, output));
                            self.record_failure(&result).await?;
                            self.finish_task(node, result)?
                        }
                    }
                }
                Some(node) => {
                    let span = step_span(self.step);
                    self.run_single(node).instrument(span).await?
                }
                None => {
                    let span = step_span(self.step);
                    Box::pin(self.run_parallel()).instrument(span).await?
                }
            };
            if let Some(end) = end {
                return Ok(end);
            }
            if self.is_left() {
                self.leave_if_over().await?;
            }
            if self.journal.is_some() {
                self.store_step().await?;
            }
            self.step = self.step.saturating_add(1);
        }
    }

    pub(in crate::engine) fn is_child(&self) -> bool {
        self.position.is_child()
    }

    /// Returns true for a root graph with `on_exit`.
    #[inline]
    pub(in crate::engine) fn is_left(&self) -> bool {
        self.task.graph.hooks.on_exit.is_some() && !self.is_child()
    }

    /// Returns true if the run must yield its thread, because nodes that never wait would keep it.
    #[inline]
    fn is_due_to_yield(&self) -> bool {
        // The clock is read only in some supersteps, because reading it costs as much as a short superstep.
        (self.step & 0xf == 0xf && self.has_thread_since.elapsed() >= TURN)
            || self.emitter.as_ref().is_some_and(|emitter| emitter.is_crowded())
    }

    /// Returns the end of a run that stops before this superstep: at a breakpoint, for its policy, or to drain.
    #[inline]
    fn stops(&mut self) -> Option<GraphEnd> {
        if let Some(breakpoints) = &mut self.breakpoints
            && breakpoints.stops_before(&mut self.position.nodes())
        {
            return Some(self.break_at(StopReason::Before(self.next())));
        }
        if let Some(policy) = self.step_policy().filter(|policy| policy.pause(self.is_child())) {
            // If the policy runs the tasks elsewhere, it learns the tasks here. Otherwise it would need another run.
            if self.resumed.is_none() {
                self.offer_next_step(&**policy);
            }
            return Some(GraphEnd::Stopped(StopReason::Drained(PAUSED.to_owned())));
        }
        // A run is drained only between supersteps of the root graph, and a subgraph runs inside such a superstep.
        let control = self.task.run.shared.config.control.as_ref().filter(|_| !self.is_child());
        Some(GraphEnd::Stopped(StopReason::Drained(control?.requested()?)))
    }

    pub(in crate::engine) fn break_at(&self, reason: StopReason) -> GraphEnd {
        if let Some(emitter) = &self.emitter {
            emitter.interrupted(&[]);
        }
        GraphEnd::Stopped(reason)
    }

    #[inline]
    fn set_steps(&mut self) {
        let remaining = usize::try_from(self.stop - self.step).unwrap_or(0);
        self.task.run.remaining = remaining;
        self.task.run.key.step = self.step;
        if let Some(journal) = &self.journal {
            self.task.run.base = journal.base;
        }
        if S::MANAGED {
            Arc::make_mut(&mut self.task.state).set_steps(Steps { remaining });
        }
    }

    /// Returns true if running the node alone only calls its code: the node has no options, and its task is neither
    /// recorded, streamed nor traced.
    #[inline]
    fn is_bare(&mut self, node: usize) -> bool {
        self.task.run.key.node = node;
        let is_recorded = self.may_be_left(node, By::Node);
        let is_seen = self.emitter.is_some() || is_traced();
        self.task.graph.nodes[node].bare && !self.routes_first(node) && !is_recorded && !is_seen
    }

    #[inline]
    fn routes_first(&self, node: usize) -> bool {
        self.position.routes_first(&self.task.graph.plan, node)
    }

    async fn run_single(&mut self, node: usize) -> Result<Option<GraphEnd>, RunError> {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
            emitter.task(started(&self.task));
        }
        let (span, emitter) = (task_span(&self.task), self.emitter.as_deref());
        let result = if self.routes_first(node) {
            execute_and_route(&self.task, emitter).instrument(span).await
        } else {
            execute(&self.task, emitter).instrument(span).await
        };
        self.record_failure(&result).await?;
        if let Some(emitter) = &self.emitter {
            let reported = safely(|| {
                report(emitter, &self.task, &result);
                Ok(())
            });
            reported.map_err(|error| self.failed(node, error))?;
        }
        self.finish_task(node, result)
    }

    /// Applies a superstep with one task.
    #[inline]
    fn finish_task(&mut self, node: usize, result: TaskResult<S>) -> Result<Option<GraphEnd>, RunError> {
        match result {
            Ok(done) if !done.is_for_parent() => {
                if self.may_be_left(node, done.by) {
                    let first = self.task.run.resume.as_ref().map_or(0, |resume| resume.free_slot);
                    let writes = stored::done(&self.task.graph, first, &done);
                    self.last_task = Some(writes.map_err(|error| self.failed(node, error))?);
                }
                let task = Applied { node: Some(node), pushed: false, done };
                let written = if self.routes_first(node) {
                    self.apply(&mut vec![task])?
                } else {
                    let Task { graph, state, .. } = &mut self.task;
                    self.position.apply_one(graph, Arc::make_mut(state), task, &mut self.routing)?
                };
                if self.emitter.is_some() && (written || self.runs_graph(node)) {
                    self.emit_values();
                }
                Ok(None)
            }
            result => self.finish_step(std::iter::once(task_end(self.task.run.key, result))),
        }
    }

    pub(in crate::engine) fn failed(&self, node: usize, error: NodeError) -> RunError {
        if let NodeErrorKind::Saver(error) = error.kind() {
            return RunError::Saver { graph: self.graph_name(), error: error.clone() };
        }
        RunError::Node { graph: self.graph_name(), node: self.task.graph.plan.name(node).to_owned(), error }
    }

    /// Applies the outcomes of a superstep, whose routes have already run.
    pub(in crate::engine) fn apply(&mut self, tasks: &mut Vec<Applied<S>>) -> Result<bool, RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.apply(graph, Arc::make_mut(state), tasks)
    }

    /// Drops the next superstep in favor of a new input.
    pub(super) fn discard(&mut self) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.discard(graph, Arc::make_mut(state), &mut [])
    }

    /// Returns the end of a run that stops after the superstep that was applied last.
    #[inline]
    fn stops_after(&mut self) -> Option<GraphEnd> {
        let passed = self.breakpoints.as_ref()?.passed(&self.task.graph.plan);
        let hit: Vec<String> = passed.map(ToString::to_string).collect();
        if hit.is_empty() { None } else { Some(self.break_at(StopReason::After(hit))) }
    }

    /// Returns the end of a run in which a subgraph stopped at a breakpoint.
    pub(super) fn stopped_inside(&self) -> GraphEnd {
        GraphEnd::Stopped(StopReason::Before(self.next()))
    }

    pub(crate) fn next(&self) -> Vec<String> {
        self.position.next(&self.task.graph.plan)
    }

    pub(crate) fn graph_name(&self) -> String {
        self.task.graph.plan.graph().to_owned()
    }
}
