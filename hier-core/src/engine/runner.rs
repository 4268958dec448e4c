//! The loop that runs a graph: the same for invoke, stream and subgraphs.

use std::sync::Arc;

use tracing::Instrument;

use super::apply::{Applied, Ledger, path_order};
use super::batch::Batch;
use super::event::{Event, StreamMode};
use super::exec::{By, Done, call, execute, execute_and_route, in_batch, resolve, route};
use super::frontier::Frontier;
use super::outcome::{Question, StopReason};
use super::plan::TaskKey;
use super::report::{is_traced, report, started, step_span, task_span};
use super::stream::Emitter;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::graph::{Inner, Output, Parcel, ParentCommand, Routing, Task};
use crate::run::{Run, Shared};
use crate::state::{Steps, Values, Writes};

/// One run of one graph.
pub(crate) struct Runner<S: Values, C> {
    /// The task that is running, where there is only one; else what the tasks are copies of.
    pub(crate) task: Task<S, C>,
    frontier: Frontier,
    sends: Vec<(usize, Parcel)>,
    /// Scratch: what the routes of a step of one task choose.
    routing: Routing,
    pub(crate) ledger: Ledger<S>,
    step: i64,
    stop: i64,
    emitter: Option<Arc<Emitter<S>>>,
    steps_taken: u32,
}

/// How a run ended, unless it failed.
pub(crate) enum End {
    Finished,
    Interrupted(Vec<Question>),
    Stopped(StopReason),
    /// A node returned a command for the parent.
    Parent(usize, Box<dyn ParentCommand>),
}

type TaskResult<S> = Result<Done<S>, NodeError>;

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
        let key = TaskKey { node: 0, step: 0, send: None };
        let run = Run { shared: Arc::new(shared), key, attempt: 1, remaining: 0, heartbeat: None };
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
        }
    }

    /// The state as it is. A clone only if somebody else still holds it.
    pub(crate) fn into_state(self) -> S {
        Arc::unwrap_or_clone(self.task.state)
    }

    /// Applies the input and follows START.
    pub(crate) fn begin(&mut self, input: Writes<S>) -> Result<(), RunError> {
        let is_child = self.ledger.returned.is_some();
        let values = is_child || !input.is_empty();
        self.apply(&mut [Applied { node: None, pushed: false, done: Done::input(input) }])?;
        if values {
            self.emit_values();
        }
        self.step += 1;
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
                [] if self.sends.is_empty() => return Ok(End::Finished),
                [node] if self.sends.is_empty() => Some(node),
                _ => None,
            };
            if let Some(reason) = self.drained() {
                return Ok(End::Stopped(StopReason::Drained(reason)));
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
            self.step += 1;
        }
    }

    /// Lets others have the thread now and then: a run whose nodes never wait would keep it.
    #[inline]
    fn is_due_to_yield(&mut self) -> bool {
        self.steps_taken = self.steps_taken.wrapping_add(1);
        self.steps_taken.is_multiple_of(256) || self.emitter.as_ref().is_some_and(|emitter| emitter.is_crowded())
    }

    #[inline]
    fn drained(&self) -> Option<String> {
        // A subgraph is part of its parent's step, and a run stops between steps.
        let is_root = self.ledger.returned.is_none();
        self.task.run.shared.config.control.as_ref().filter(|_| is_root)?.requested()
    }

    #[inline]
    fn set_steps(&mut self) {
        let remaining = usize::try_from(self.stop - self.step).unwrap_or(0);
        self.task.run.remaining = remaining;
        self.task.run.key.step = self.step;
        if S::MANAGED {
            Arc::make_mut(&mut self.task.state).set_steps(Steps { remaining });
        }
    }

    /// A step of one task with options or listeners, or of several.
    async fn told(&mut self, single: Option<usize>) -> Result<Option<End>, RunError> {
        match single {
            Some(node) => self.single(node).await,
            None => self.several().await,
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
    fn choose(&mut self, node: Option<usize>) -> Result<(), RunError> {
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
        if let Some(emitter) = &self.emitter {
            report(emitter, &self.task, &result);
        }
        self.ended(node, result)
    }

    /// Applies a step of one task.
    #[inline]
    fn ended(&mut self, node: usize, result: TaskResult<S>) -> Result<Option<End>, RunError> {
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

    /// A step of any number of tasks.
    async fn several(&mut self) -> Result<Option<End>, RunError> {
        let sends = std::mem::take(&mut self.sends);
        let pushed = sends.len();
        let step = self.step;
        let pulled = self.frontier.ready().iter().copied();
        let nodes: Vec<usize> = sends.iter().map(|(node, _)| *node).chain(pulled).collect();
        let key = move |place: usize, node: usize| TaskKey { node, step, send: (place < pushed).then_some(place) };
        let (template, emitter) = (self.task.clone(), self.emitter.clone());
        if let Some(emitter) = emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
            for (place, node) in nodes.iter().enumerate() {
                let parcel = sends.get(place).map(|(_, parcel)| parcel.clone());
                emitter.started(started(&template.sibling(key(place, *node), parcel)));
            }
        }
        let pulls: Vec<_> = nodes[pushed..].iter().map(|node| (*node, None)).collect();
        let parcels = sends.into_iter().map(|(node, parcel)| (node, Some(parcel)));
        let mut tasks = parcels.chain(pulls).enumerate();
        let start = move || {
            let (place, (node, parcel)) = tasks.next()?;
            Some(in_batch(template.sibling(key(place, node), parcel), emitter.clone()))
        };
        let limit = self.task.run.shared.config.max_concurrency.unwrap_or(usize::MAX);
        let results = Batch::run(nodes.len(), start, limit, &self.task.run.shared.crew).await;
        let results = results.map_err(|_| RunError::NoRuntime { graph: self.graph_name() })?;
        let results = results.into_iter().flatten().zip(nodes).enumerate();
        self.conclude(results.map(|(place, (result, node))| (key(place, node), result)))
    }
    /// The end of a step: applied if all its tasks have just ended; else the first error in task order, or a command for
    /// the parent, or questions.
    fn conclude(&mut self, results: impl Iterator<Item = (TaskKey, TaskResult<S>)>) -> Result<Option<End>, RunError> {
        let mut ended = Vec::with_capacity(results.size_hint().1.unwrap_or_default());
        let mut questions = Vec::new();
        let mut parent = None;
        for (key, result) in results {
            match result {
                Ok(mut done) => match done.leads.as_mut().and_then(|leads| leads.parent.take()) {
                    Some(command) => parent = parent.or(Some(End::Parent(key.node, command))),
                    None => ended.push(Applied { node: Some(key.node), pushed: key.send.is_some(), done }),
                },
                Err(error) => match error.kind() {
                    NodeErrorKind::Interrupt(asked) => questions.extend(asked.iter().cloned()),
                    _ => return Err(self.failed(key.node, error)),
                },
            }
        }
        if parent.is_some() {
            return Ok(parent);
        }
        if questions.is_empty() {
            let written = self.apply_routed(&mut ended)?;
            self.emit_values_of(written, &ended);
            return Ok(None);
        }
        if let Some(emitter) = &self.emitter {
            emitter.interrupted(&questions);
        }
        // Whoever asks for the state sees what the other tasks have done meanwhile, as in the reference.
        let graph = self.task.graph.clone();
        let state = Arc::make_mut(&mut self.task.state);
        let written = self.ledger.apply(&graph.plan, &graph.channels, state, &mut ended)?;
        self.emit_values_of(written, &ended);
        Ok(Some(End::Interrupted(questions)))
    }

    fn failed(&self, node: usize, error: NodeError) -> RunError {
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
    fn apply_routed(&mut self, applied: &mut [Applied<S>]) -> Result<bool, RunError> {
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

    fn emit_values_of(&self, written: bool, tasks: &[Applied<S>]) {
        if written || tasks.iter().filter_map(|task| task.node).any(|node| self.runs_graph(node)) {
            self.emit_values();
        }
    }

    fn emit_values(&self) {
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
