//! The loop that runs a graph: the same for invoke, stream and subgraphs.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use tracing::Instrument;

use super::apply::{Applied, Ledger, path_order};
use super::durable::{Journal, Last, Opened};
use super::event::{Event, StreamMode};
use super::exec::{call, execute, execute_and_route, resolve, route};
use super::frontier::Frontier;
use super::outcome::StopReason;
use super::report::{is_traced, report, started, step_span, task_span};
use super::stream::Emitter;
use crate::engine::program::{By, Done, Inner, Output, Parcel, ParentCommand, Routing, Run, Shared, Task, TaskKey};
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::question::Question;
use crate::state::{Steps, Values, Writes};

/// One run of one graph.
pub(crate) struct Runner<S: Values, C> {
    /// The task that is running, where there is only one; else what the tasks are copies of.
    pub(crate) task: Task<S, C>,
    pub(super) frontier: Frontier,
    pub(super) sends: Vec<(usize, Parcel)>,
    /// Scratch: what the routes of a step of one task choose.
    routing: Routing,
    pub(crate) ledger: Ledger<S>,
    pub(super) step: i64,
    pub(super) stop: i64,
    pub(super) emitter: Option<Arc<Emitter<S>>>,
    steps_taken: u32,
    /// Nodes before and after which the run stops.
    pub(super) breakpoints: Option<Box<Breakpoints>>,
    /// The durable side, if there is a saver.
    pub(super) journal: Option<Box<Journal>>,
    /// What is known of the tasks of the first step.
    pub(super) opened: Option<Box<Opened>>,
    /// An input that was stored and has not been applied.
    pub(super) start: Option<Writes<S>>,
    /// Which node ran last: kept if the run is durable.
    pub(super) last: Last,
    /// The nodes that ran in the last step of several tasks.
    pub(super) ran: Vec<usize>,
    /// How much of what a subgraph hands back has been stored.
    pub(super) stored_returns: usize,
    /// Whether code runs when this root is left.
    pub(super) is_left: bool,
}

/// Nodes before and after which a run stops.
pub(crate) struct Breakpoints {
    pub(super) before: FixedBitSet,
    pub(super) after: FixedBitSet,
    /// Whether something has run since the run began: a breakpoint does not stop a run twice at one place.
    pub(super) armed: bool,
}

/// How a run ended, unless it failed.
pub(crate) enum End {
    Finished,
    Interrupted(Vec<Question>),
    Stopped(StopReason),
    /// A node returned a command for the parent.
    Parent(usize, Box<dyn ParentCommand>),
}

pub(super) type TaskResult<S> = Result<Done<S>, NodeError>;

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    pub(crate) fn new(
        graph: Arc<Inner<S, C>>,
        state: Arc<S>,
        shared: Shared<C>,
        emitter: Option<Arc<Emitter<S>>>,
        is_child: bool,
    ) -> Self {
        let limit = i64::try_from(shared.config.recursion_limit).unwrap_or(i64::MAX - 1);
        let frontier = Frontier::new(&graph.plan);
        let ledger = Ledger::new(&graph.channels, is_child);
        let is_left = !is_child && graph.hooks.on_exit.is_some();
        let key = TaskKey { node: 0, step: 0, send: None };
        let breakpoints = Breakpoints::of(&graph.plan);
        let shared = Arc::new(shared);
        let run = Run { shared, key, attempt: 1, remaining: 0, heartbeat: None, base: None, inbox: None, hook: None };
        let task = Task { graph, state, run, parcel: None, failure: None };
        // The input is the checkpoint of step −1, START the superstep 0, the first nodes run in step 1.
        Self {
            task,
            frontier,
            sends: Vec::new(),
            routing: Routing::default(),
            ledger,
            step: 0,
            stop: limit,
            emitter,
            steps_taken: 0,
            breakpoints,
            journal: None,
            opened: None,
            start: None,
            last: Last::default(),
            ran: Vec::new(),
            stored_returns: 0,
            is_left,
        }
    }

    /// The state as it is. A clone only if somebody else still holds it.
    pub(crate) fn into_state(self) -> S {
        Arc::unwrap_or_clone(self.task.state)
    }

    /// Applies the input and follows START.
    pub(crate) fn begin(&mut self, input: Writes<S>) -> Result<(), RunError> {
        self.begin_step(input)?;
        self.step += 1;
        Ok(())
    }

    /// The step in which START runs.
    pub(super) fn begin_step(&mut self, input: Writes<S>) -> Result<(), RunError> {
        self.last = Last::Start;
        let values = self.is_child() || !input.is_empty();
        self.apply(&mut [Applied { node: None, pushed: false, done: Done::input(input) }])?;
        if values {
            self.emit_values();
        }
        Ok(())
    }

    /// Runs supersteps until nothing is left to do.
    pub(crate) async fn drive(&mut self) -> Result<End, RunError> {
        loop {
            if self.is_due_to_yield() {
                tokio::task::yield_now().await;
            }
            if self.step > self.stop {
                return Err(RunError::RecursionLimit {
                    graph: self.graph_name(),
                    limit: self.task.run.shared.config.recursion_limit,
                    next: self.next(),
                });
            }
            let single = match *self.frontier.ready() {
                [] if self.is_over() => return Ok(End::Finished),
                _ if self.opened.is_some() || self.start.is_some() => None,
                [node] if self.sends.is_empty() => Some(node),
                _ => None,
            };
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
                        Ok(Output { writes, orders: None }) if self.is_simple(node) => {
                            self.advance_simply(node, writes)?;
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
            if self.is_left {
                self.leave_if_over().await?;
            }
            if self.journal.is_some() {
                self.store_step(single).await?;
            }
            if let Some(end) = self.stops_after(single) {
                return Ok(end);
            }
            self.step += 1;
        }
    }

    /// Whether nothing is left to do.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.frontier.ready().is_empty() && self.sends.is_empty() && self.start.is_none()
    }

    pub(super) fn is_child(&self) -> bool {
        self.ledger.returned.is_some()
    }

    /// Lets others have the thread now and then: a run whose nodes never wait would keep it.
    #[inline]
    fn is_due_to_yield(&mut self) -> bool {
        self.steps_taken = self.steps_taken.wrapping_add(1);
        self.steps_taken.is_multiple_of(256) || self.emitter.as_ref().is_some_and(|emitter| emitter.is_crowded())
    }

    /// Whether the run stops before this step: at a breakpoint, or because it was asked to.
    #[inline]
    fn stops(&mut self) -> Option<End> {
        if let Some(breakpoints) = &self.breakpoints {
            let mut nodes = self.frontier.ready().iter().copied().chain(self.sends.iter().map(|(node, _)| *node));
            if breakpoints.armed && nodes.any(|node| breakpoints.before.contains(node)) {
                return Some(self.break_at(StopReason::Before(self.next())));
            }
        }
        self.drained().map(|reason| End::Stopped(StopReason::Drained(reason)))
    }

    pub(super) fn break_at(&self, reason: StopReason) -> End {
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
        self.emitter.is_none() && self.task.graph.nodes[node].bare && !self.routes_apart(node) && !is_traced()
    }

    /// Whether the node's routes have to be asked before its writes are applied: what expires with the step is there
    /// for them too.
    #[inline]
    fn routes_apart(&self, node: usize) -> bool {
        self.ledger.is_expiring() && !self.task.graph.plan.exits[node].routes.is_empty()
    }

    /// Whether a step of this node alone changes nothing but the values of channels and which nodes are next.
    #[inline]
    fn is_simple(&self, node: usize) -> bool {
        self.task.graph.plan.exits[node].plain && self.ledger.is_simple()
    }

    /// The same as `ended` for a step of which [`Self::is_simple`] holds: the way of most steps.
    #[inline]
    fn advance_simply(&mut self, node: usize, writes: Writes<S>) -> Result<(), RunError> {
        let Task { graph, state, .. } = &mut self.task;
        let exit = &graph.plan.exits[node];
        let state = Arc::make_mut(state);
        self.ledger.merge_simply(&graph.plan, &graph.channels, state, node, writes)?;
        self.frontier.go_on(exit);
        if exit.routes.is_empty() { Ok(()) } else { self.choose(Some(node)) }
    }

    /// Asks the routes of a node or of START about the state as it is now, and follows what they choose.
    pub(super) fn choose(&mut self, node: Option<usize>) -> Result<(), RunError> {
        let graph = &*self.task.graph;
        let plan = &*graph.plan;
        route(&graph.routes, &plan.exit(node).routes, &self.task.state, &mut self.routing).map_err(|error| {
            let name = node.map_or(hier_spec::START, |node| plan.name(node)).to_owned();
            RunError::Node { graph: plan.graph().to_owned(), node: name, error }
        })?;
        self.routing.go.drain(..).for_each(|node| self.frontier.signal(plan, plan.rank(node)));
        self.sends.extend(self.routing.sends.drain(..).map(|(node, parcel)| (plan.rank(node), parcel)));
        self.frontier.end(plan);
        Ok(())
    }

    /// A step of one task: run in place; its routes see the state with its writes applied.
    async fn single(&mut self, node: usize) -> Result<Option<End>, RunError> {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
            emitter.started(started(&self.task));
        }
        let apart = self.routes_apart(node);
        let span = task_span(&self.task);
        let result = if apart {
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
    pub(super) fn ended(&mut self, node: usize, result: TaskResult<S>) -> Result<Option<End>, RunError> {
        match result {
            Ok(done) if !done.is_for_parent() => {
                let apart = self.routes_apart(node);
                let mut applied = [Applied { node: Some(node), pushed: false, done }];
                let written = if apart { self.apply_routed(&mut applied)? } else { self.apply(&mut applied)? };
                if self.emitter.is_some() && (written || self.runs_graph(node)) {
                    self.emit_values();
                }
                Ok(None)
            }
            result => self.conclude(std::iter::once((self.task.run.key, result))),
        }
    }

    pub(super) fn failed(&self, node: usize, error: NodeError) -> RunError {
        if let NodeErrorKind::Saver(error) = error.kind() {
            return RunError::Saver { graph: self.graph_name(), error: error.clone() };
        }
        RunError::Node { graph: self.graph_name(), node: self.task.graph.plan.name(node).to_owned(), error }
    }

    /// Applies a step of one task, or START, whose routes are asked here.
    fn apply(&mut self, applied: &mut [Applied<S>; 1]) -> Result<bool, RunError> {
        let graph = &*self.task.graph;
        let state = Arc::make_mut(&mut self.task.state);
        let written = self.ledger.apply(&graph.plan, &graph.channels, state, applied)?;
        let [Applied { node, done, .. }] = applied;
        let (node, by) = (*node, done.by);
        self.advance(applied);
        if self.task.graph.plan.exit(node).routes.is_empty() || by == By::Handler {
            self.frontier.end(&self.task.graph.plan);
        } else {
            self.choose(node)?;
        }
        Ok(written)
    }

    /// Applies a step whose routes have been asked.
    pub(super) fn apply_routed(&mut self, applied: &mut [Applied<S>]) -> Result<bool, RunError> {
        let graph = &*self.task.graph;
        let state = Arc::make_mut(&mut self.task.state);
        let written = self.ledger.apply(&graph.plan, &graph.channels, state, applied)?;
        self.advance(applied);
        self.frontier.end(&self.task.graph.plan);
        Ok(written)
    }

    /// Follows the edges of what has run. The caller adds what routes choose, and ends the frontier.
    fn advance(&mut self, applied: &mut [Applied<S>]) {
        let plan = &*self.task.graph.plan;
        self.frontier.begin();
        for task in applied.iter().filter(|task| !task.pushed) {
            if let Some(node) = task.node {
                self.frontier.consume(plan, node);
            }
        }
        self.sends.clear();
        for task in path_order(applied) {
            if let Some(leads) = &mut task.done.leads {
                leads.go.iter().for_each(|node| self.frontier.signal(plan, *node));
                self.sends.append(&mut leads.sends);
            }
            if task.done.by != By::Handler {
                self.frontier.follow(plan, plan.exit(task.node));
            }
        }
    }

    /// A node that is a graph counts as having written, whatever it did: in the reference it returns all its channels.
    fn runs_graph(&self, node: usize) -> bool {
        self.task.graph.child(node).is_some()
    }

    pub(super) fn emit_values_of(&self, written: bool, tasks: &[Applied<S>]) {
        if written || tasks.iter().filter_map(|task| task.node).any(|node| self.runs_graph(node)) {
            self.emit_values();
        }
    }

    pub(super) fn emit_values(&self) {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Values)) {
            emitter.emit(Event::Values(self.task.state.clone()));
        }
    }

    /// The names of the nodes that would run next.
    pub(crate) fn next(&self) -> Vec<String> {
        let plan = &self.task.graph.plan;
        let sent = self.sends.iter().map(|(node, _)| *node);
        sent.chain(self.frontier.ready().iter().copied()).map(|node| plan.name(node).to_owned()).collect()
    }

    pub(crate) fn graph_name(&self) -> String {
        self.task.graph.plan.graph().to_owned()
    }
}
