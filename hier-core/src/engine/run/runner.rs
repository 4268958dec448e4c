//! The loop that runs a graph: the same for invoke, stream and subgraphs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use crate::checkpoint::{PendingWrite, Source};
use crate::engine::attempt::exec::{call, execute, execute_and_route, resolve};
use crate::engine::attempt::report::{is_traced, report, started, step_span, task_span};
use crate::engine::attempt::stored;
use crate::engine::durable::journal::Journal;
use crate::engine::durable::resumed::Resumed;
use crate::engine::program::{By, Done, Output, ParentCommand, Program, Routing, Run, Shared, Task, TaskKey};
use crate::engine::run::piece::ended;
use crate::engine::step::{Applied, Breakpoints, Position};
use crate::engine::stream::emitter::Emitter;
use crate::engine::stream::event::{Event, StreamMode};
use crate::engine::stream::outcome::StopReason;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::policy::StepPolicy;
use crate::question::Question;
use crate::state::{Steps, Values, Writes};

/// One run of one graph. The input is step -1, START is step 0, and the first nodes are step 1.
pub(crate) struct Runner<S: Values, C> {
    /// The task that is running, where there is only one; else what the tasks are copies of.
    pub(crate) task: Task<S, C>,
    pub(in crate::engine) position: Position<S>,
    /// Scratch: what the routes of a step of one task choose.
    routing: Routing,
    /// The step that runs next, or is running.
    pub(in crate::engine) step: i64,
    /// The last step that may run.
    pub(in crate::engine) stop: i64,
    pub(in crate::engine) emitter: Option<Arc<Emitter<S>>>,
    pub(in crate::engine) breakpoints: Option<Box<Breakpoints>>,
    /// The durable side, if the graph has checkpoints in this run.
    pub(in crate::engine) journal: Option<Box<Journal>>,
    /// The earlier progress of the tasks of the first step. They take it when they are created.
    pub(in crate::engine) resumed: Option<Box<Resumed>>,
    /// The open questions that a new input of a thread withdraws.
    pub(in crate::engine) withdrawn: Option<Box<[serde_json::Value]>>,
    has_thread_since: Instant,
    /// Writes of the task of the step that was just applied, if the graph may be left after it.
    pub(in crate::engine) last_task: Option<Vec<PendingWrite>>,
}

/// How a run ended, unless it failed.
pub(crate) enum End {
    Finished,
    Interrupted(Vec<Question>),
    Stopped(StopReason),
    /// A node returned a command for the parent.
    Parent(usize, Box<dyn ParentCommand>),
}

/// Longest time that a run occupies its executor thread if its nodes do not wait.
const TURN: Duration = Duration::from_millis(1);

/// Why a run stops at the end of a turn.
pub(in crate::engine) const PAUSED: &str = "a pause between steps";

pub(in crate::engine) type TaskResult<S> = Result<Done<S>, NodeError>;

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    pub(crate) fn new(
        graph: Arc<Program<S, C>>,
        state: Arc<S>,
        shared: Shared<C>,
        emitter: Option<Arc<Emitter<S>>>,
        is_child: bool,
    ) -> Self {
        let position = Position::new(&graph, is_child);
        let key = TaskKey { node: 0, step: 0, send: None };
        let breakpoints = Breakpoints::of(&graph.plan);
        let shared = Arc::new(shared);
        let run = Run {
            shared,
            key,
            attempt: 1,
            remaining: 0,
            heartbeat: None,
            base: None,
            inbox: None,
            personal: None,
            hook: None,
            is_handler: false,
        };
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
        // The input is the checkpoint of step −1, START the superstep 0, the first nodes run in step 1.
        runner.start_at(-1);
        runner
    }

    /// The next step is this one. The run may take as many as its limit says, and this one, which is an input or has been begun
    /// before; it ends before the numbers do.
    pub(in crate::engine) fn start_at(&mut self, step: i64) {
        let limit = i64::try_from(self.task.run.shared.config.recursion_limit).unwrap_or(i64::MAX).min(i64::MAX / 2);
        self.step = step;
        self.stop = step.saturating_add(limit + 1).min(i64::MAX - 1);
    }

    /// The graph is entered at this step.
    pub(in crate::engine) fn enter_at(&mut self, step: i64) {
        self.start_at(step);
        if let Some(policy) = self.step_policy() {
            policy.start_at(&self.task.run.shared.namespace, self.stop);
        }
    }

    /// Resumes the graph at this step. A policy counts the steps of all parts of a run together.
    pub(in crate::engine) fn resume_at(&mut self, step: i64) {
        self.start_at(step);
        if let Some(policy) = self.step_policy() {
            self.stop = policy.resume_at(&self.task.run.shared.namespace, self.stop);
        }
    }

    #[inline]
    pub(in crate::engine) fn step_policy(&self) -> Option<&Arc<dyn StepPolicy>> {
        self.task.run.shared.config.step_policy.as_ref()
    }

    /// A runner at the stored position of the thread.
    pub(super) fn take_up(&mut self, journal: Journal, state: S, position: Position<S>) {
        self.journal = Some(Box::new(journal));
        self.task.state = Arc::new(state);
        self.position = position;
    }

    /// Goes on with the step that follows a checkpoint of this source; of its tasks so much is known.
    pub(super) fn resume(&mut self, resumed: Option<Resumed>, source: Source) {
        self.resumed = resumed.map(Box::new);
        if let Some(breakpoints) = &mut self.breakpoints {
            breakpoints.disarm();
        }
        // The run that paused has reported both.
        if self.step_policy().is_none_or(|policy| !policy.resumes()) {
            self.emit_values();
            self.emit_checkpoint(self.step.saturating_sub(1), source);
        }
    }

    /// The state as it is. A clone only if somebody else still holds it.
    pub(crate) fn into_state(self) -> S {
        Arc::unwrap_or_clone(self.task.state)
    }

    /// Applies the input and follows START.
    pub(crate) fn begin(&mut self, input: Writes<S>) -> Result<(), RunError> {
        self.step = self.step.saturating_add(1);
        self.position.set_input(Some(input));
        self.begin_step()?;
        self.step = self.step.saturating_add(1);
        Ok(())
    }

    /// The step in which START runs.
    pub(in crate::engine) fn begin_step(&mut self) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        let written = self.position.begin(graph, Arc::make_mut(state), &mut self.routing)?;
        if written || self.position.is_child() {
            self.emit_values();
        }
        Ok(())
    }

    /// Runs supersteps until nothing is left to do.
    pub(crate) async fn drive(&mut self) -> Result<End, RunError> {
        loop {
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
                return Ok(End::Finished);
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
                    match call(task, &task.graph.nodes[node].body).await {
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
                            self.note_failure(&result).await?;
                            self.ended(node, result)?
                        }
                    }
                }
                single => {
                    let span = step_span(self.step);
                    self.told(single).instrument(span).await?
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
            if let Some(end) = self.stops_after() {
                return Ok(end);
            }
            self.step = self.step.saturating_add(1);
        }
    }

    pub(in crate::engine) fn is_child(&self) -> bool {
        self.position.is_child()
    }

    /// Whether code runs when this root is left.
    #[inline]
    pub(in crate::engine) fn is_left(&self) -> bool {
        self.task.graph.hooks.on_exit.is_some() && !self.is_child()
    }

    /// Lets others have the thread now and then: a run whose nodes never wait would keep it.
    #[inline]
    fn is_due_to_yield(&self) -> bool {
        // Reading the clock costs as much as a short step.
        (self.step & 0xf == 0xf && self.has_thread_since.elapsed() >= TURN)
            || self.emitter.as_ref().is_some_and(|emitter| emitter.is_crowded())
    }

    /// Whether the run stops before this step: at a breakpoint, or because it was asked to.
    #[inline]
    fn stops(&mut self) -> Option<End> {
        if let Some(breakpoints) = &mut self.breakpoints
            && breakpoints.stops_before(self.position.nodes())
        {
            return Some(self.break_at(StopReason::Before(self.next())));
        }
        if let Some(policy) = self.step_policy().filter(|policy| policy.pauses(self.is_child())) {
            // Tasks that run elsewhere are known already: no further run is needed to find them.
            if self.resumed.is_some() || !self.hands_out(&**policy) {
                policy.paused();
            }
            return Some(End::Stopped(StopReason::Drained(PAUSED.to_owned())));
        }
        self.drained().map(|reason| End::Stopped(StopReason::Drained(reason)))
    }

    pub(in crate::engine) fn break_at(&self, reason: StopReason) -> End {
        if let Some(emitter) = &self.emitter {
            emitter.interrupted(&[]);
        }
        End::Stopped(reason)
    }

    #[inline]
    fn drained(&self) -> Option<String> {
        // A subgraph is part of its parent's step, and a run stops between steps.
        self.task.run.shared.config.control.as_ref().filter(|_| !self.is_child())?.requested()
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

    /// A step of one task with options or listeners, or of several.
    async fn told(&mut self, single: Option<usize>) -> Result<Option<End>, RunError> {
        match single {
            Some(node) => self.single(node).await,
            None => Box::pin(self.several()).await,
        }
    }

    /// Whether running the node alone is just calling its code: nobody listens or traces, and it has no options.
    #[inline]
    fn is_bare(&mut self, node: usize) -> bool {
        self.task.run.key.node = node;
        let is_recorded = self.may_be_left(node, By::Node);
        let is_seen = self.emitter.is_some() || is_traced();
        self.task.graph.nodes[node].bare && !self.routes_first(node) && !is_recorded && !is_seen
    }

    /// Whether the node's routes have to be asked before its writes are applied.
    #[inline]
    fn routes_first(&self, node: usize) -> bool {
        self.position.routes_first(&self.task.graph.plan, node)
    }

    /// A step of one task: run in place; its routes see the state with its writes applied.
    async fn single(&mut self, node: usize) -> Result<Option<End>, RunError> {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
            emitter.task(started(&self.task));
        }
        let span = task_span(&self.task);
        let result = if self.routes_first(node) {
            execute_and_route(&self.task).instrument(span).await
        } else {
            execute(&self.task).instrument(span).await
        };
        self.note_failure(&result).await?;
        if let Some(emitter) = &self.emitter {
            report(emitter, &self.task, &result);
        }
        self.ended(node, result)
    }

    /// Applies a step of one task.
    #[inline]
    pub(in crate::engine) fn ended(&mut self, node: usize, result: TaskResult<S>) -> Result<Option<End>, RunError> {
        match result {
            Ok(done) if !done.is_for_parent() => {
                if self.may_be_left(node, done.by) {
                    let first = self.task.run.inbox.as_ref().map_or(0, |inbox| inbox.free_slot);
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
            result => self.conclude(std::iter::once(ended(self.task.run.key, result))),
        }
    }

    pub(in crate::engine) fn failed(&self, node: usize, error: NodeError) -> RunError {
        if let NodeErrorKind::Saver(error) = error.kind() {
            return RunError::Saver { graph: self.graph_name(), error: error.clone() };
        }
        RunError::Node { graph: self.graph_name(), node: self.task.graph.plan.name(node).to_owned(), error }
    }

    /// Applies a step whose routes have been asked.
    pub(in crate::engine) fn apply(&mut self, tasks: &mut Vec<Applied<S>>) -> Result<bool, RunError> {
        let Task { graph, state, .. } = &mut self.task;
        self.position.apply(graph, Arc::make_mut(state), tasks)
    }

    /// A node that is a graph counts as having written, whatever it did: in the reference it returns all its channels.
    fn runs_graph(&self, node: usize) -> bool {
        self.task.graph.child(node).is_some()
    }

    pub(in crate::engine) fn emit_values_of(&self, written: bool, tasks: &[Applied<S>]) {
        if written || tasks.iter().filter_map(|task| task.node).any(|node| self.runs_graph(node)) {
            self.emit_values();
        }
    }

    pub(in crate::engine) fn emit_values(&self) {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Values)) {
            emitter.emit(Event::Values(self.task.state.clone()));
        }
    }

    /// The names of the nodes that would run next.
    pub(crate) fn next(&self) -> Vec<String> {
        self.position.next(&self.task.graph.plan)
    }

    pub(crate) fn graph_name(&self) -> String {
        self.task.graph.plan.graph().to_owned()
    }
}
