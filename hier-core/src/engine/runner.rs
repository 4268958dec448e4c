//! The loop that runs a graph: the same for invoke, stream and subgraphs.

use std::sync::{Arc, OnceLock};

use super::apply::{Applied, Ledger, path_order};
use super::batch::Batch;
use super::event::{Event, NodeUpdate, StreamMode, TaskFinished, TaskStarted, state_json};
use super::exec::{By, Done, execute, execute_and_route, route};
use super::frontier::Frontier;
use super::outcome::{Question, StopReason};
use super::plan::{Exit, TaskKey};
use super::stream::Emitter;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::graph::{BoxFuture, Inner, Parcel, ParentCommand, Task};
use crate::run::{Run, Shared};
use crate::state::{Steps, Update, Values, Writes};

/// One run of one graph.
pub(crate) struct Runner<S: Values, C> {
    /// The task that is running, where there is only one; else what the tasks are copies of.
    pub(crate) task: Task<S, C>,
    frontier: Frontier,
    sends: Vec<(usize, Parcel)>,
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
        Self { task, frontier, sends: Vec::new(), ledger, step: 0, stop: limit, emitter, steps_taken: 0 }
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
            self.breathe().await;
            if self.step > self.stop {
                return Err(RunError::RecursionLimit {
                    graph: self.graph_name(),
                    limit: self.task.run.shared.config.recursion_limit,
                    next: self.next(),
                });
            }
            let single = if self.sends.is_empty() { self.frontier.only() } else { None };
            if single.is_none() && self.sends.is_empty() && self.frontier.ready().next().is_none() {
                return Ok(End::Finished);
            }
            if let Some(reason) = self.drained() {
                return Ok(End::Stopped(StopReason::Drained(reason)));
            }
            self.set_steps();
            let end = match single {
                Some(node) => self.single(node).await?,
                None => self.several().await?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
            self.step += 1;
        }
    }

    /// Lets others have the thread now and then: a run whose nodes never wait would keep it.
    async fn breathe(&mut self) {
        self.steps_taken = self.steps_taken.wrapping_add(1);
        let crowded = self.emitter.as_ref().is_some_and(|emitter| emitter.is_crowded());
        if crowded || self.steps_taken % 256 == 0 {
            tokio::task::yield_now().await;
        }
    }

    fn drained(&self) -> Option<String> {
        // A subgraph is part of its parent's step, and a run stops between steps.
        let is_root = self.ledger.returned.is_none();
        self.task.run.shared.config.control.as_ref().filter(|_| is_root)?.requested()
    }

    fn set_steps(&mut self) {
        let remaining = usize::try_from(self.stop - self.step).unwrap_or(0);
        self.task.run.remaining = remaining;
        self.task.run.key.step = self.step;
        Arc::make_mut(&mut self.task.state).set_steps(Steps { remaining });
    }

    /// A step of one task: run in place; its routes see the state with its writes applied.
    async fn single(&mut self, node: usize) -> Result<Option<End>, RunError> {
        self.task.run.key.node = node;
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
            emitter.started(started(&self.task));
        }
        let result = execute(&self.task).await;
        if let Some(emitter) = &self.emitter {
            report(emitter, &self.task, &result);
        }
        match result {
            Ok(done) if done.parent.is_none() => {
                if self.apply(&mut [Applied { node: Some(node), pushed: false, done }])? {
                    self.emit_values();
                }
                Ok(None)
            }
            result => self.conclude(vec![result], &[self.task.run.key]),
        }
    }

    /// A step of any number of tasks.
    async fn several(&mut self) -> Result<Option<End>, RunError> {
        let parcels = std::mem::take(&mut self.sends);
        let pushed = parcels.len();
        let step = self.step;
        let parcels = parcels.into_iter().enumerate();
        let pushes = parcels.map(|(index, (node, parcel))| (TaskKey { node, step, send: Some(index) }, Some(parcel)));
        let pulls = self.frontier.ready().map(|node| (TaskKey { node, step, send: None }, None));
        let tasks: Vec<(TaskKey, Option<Parcel>)> = pushes.chain(pulls).collect();
        let keys: Vec<TaskKey> = tasks.iter().map(|(key, _)| *key).collect();
        let futures: Vec<BoxFuture<'static, TaskResult<S>>> = {
            let tasks = tasks.into_iter().map(|(key, parcel)| {
                let run = Run { key, ..self.task.run.clone() };
                Task { run, parcel, ..self.task.clone() }
            });
            let tasks: Vec<_> = tasks.collect();
            if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants_tasks()) {
                tasks.iter().for_each(|task| emitter.started(started(task)));
            }
            tasks.into_iter().map(|task| self.future(task)).collect()
        };
        let limit = self.task.run.shared.config.max_concurrency.unwrap_or(usize::MAX);
        let results = Batch::run(futures.into_iter(), limit).await;
        let results = results.map_err(|_| RunError::NoRuntime { graph: self.graph_name() })?;
        if results.iter().any(|result| !matches!(result, Ok(done) if done.parent.is_none())) {
            return self.conclude(results, &keys);
        }
        let done = results.into_iter().flatten().zip(&keys).enumerate();
        let mut applied: Vec<Applied<S>> = done
            .map(|(number, (done, key))| Applied { node: Some(key.node), pushed: number < pushed, done })
            .collect();
        if self.apply_routed(&mut applied)? {
            self.emit_values();
        }
        Ok(None)
    }

    fn future(&self, task: Task<S, C>) -> BoxFuture<'static, TaskResult<S>> {
        match self.emitter.clone() {
            None => Box::pin(async move { execute_and_route(&task).await }),
            Some(emitter) => Box::pin(async move {
                let result = execute_and_route(&task).await;
                report(&emitter, &task, &result);
                result
            }),
        }
    }

    /// A step in which not all tasks just ended: the first error in task order, or a command for the parent, or
    /// questions.
    fn conclude(&mut self, results: Vec<TaskResult<S>>, keys: &[TaskKey]) -> Result<Option<End>, RunError> {
        let mut questions = Vec::new();
        let mut parent = None;
        let mut ended = Vec::new();
        for (result, key) in results.into_iter().zip(keys) {
            match result {
                Ok(mut done) => match done.parent.take() {
                    Some(command) => parent = parent.or(Some(End::Parent(key.node, command))),
                    None => ended.push(Applied { node: Some(key.node), pushed: key.send.is_some(), done }),
                },
                Err(error) => match error.kind() {
                    NodeErrorKind::Interrupt(asked) => questions.extend(asked.iter().cloned()),
                    _ => return Err(self.failed(key.node, error)),
                },
            }
        }
        if let Some(end) = parent {
            return Ok(Some(end));
        }
        if let Some(emitter) = &self.emitter {
            emitter.interrupted(&questions);
        }
        // Whoever asks for the state sees what the other tasks have done meanwhile, as in the reference.
        let graph = self.task.graph.clone();
        let state = Arc::make_mut(&mut self.task.state);
        if self.ledger.apply(&graph.plan, &graph.channels, state, &mut ended)? {
            self.emit_values();
        }
        Ok(Some(End::Interrupted(questions)))
    }

    fn failed(&self, node: usize, error: NodeError) -> RunError {
        RunError::Node { graph: self.graph_name(), node: self.task.graph.plan.name(node).to_owned(), error }
    }

    /// Applies a step of one task, or START, whose routes are asked here.
    fn apply(&mut self, applied: &mut [Applied<S>; 1]) -> Result<bool, RunError> {
        let graph = self.task.graph.clone();
        let state = Arc::make_mut(&mut self.task.state);
        let written = self.ledger.apply(&graph.plan, &graph.channels, state, applied)?;
        let [Applied { node, done, .. }] = applied;
        let routes = &exit(&graph, *node).routes;
        if !routes.is_empty() && done.by != By::Handler {
            let node = *node;
            route(&graph.routes, routes, |index| graph.plan.rank(index), &*self.task.state, done).map_err(|error| {
                let name = node.map_or(hier_spec::START, |node| graph.plan.name(node)).to_owned();
                RunError::Node { graph: self.graph_name(), node: name, error }
            })?;
        }
        self.advance(&graph, applied);
        Ok(written)
    }

    /// Applies a step whose routes have been asked.
    fn apply_routed(&mut self, applied: &mut [Applied<S>]) -> Result<bool, RunError> {
        let graph = self.task.graph.clone();
        let state = Arc::make_mut(&mut self.task.state);
        let written = self.ledger.apply(&graph.plan, &graph.channels, state, applied)?;
        self.advance(&graph, applied);
        Ok(written)
    }

    /// Follows the edges of what has run.
    fn advance(&mut self, graph: &Inner<S, C>, applied: &mut [Applied<S>]) {
        let plan = &graph.plan;
        self.frontier.begin();
        for task in applied.iter().filter(|task| !task.pushed) {
            if let Some(node) = task.node {
                self.frontier.consume(plan, node);
            }
        }
        self.sends.clear();
        for task in path_order(applied) {
            task.done.go.iter().for_each(|node| self.frontier.signal(plan, *node));
            if task.done.by != By::Handler {
                self.frontier.follow(plan, exit(graph, task.node));
            }
            self.sends.append(&mut task.done.sends);
        }
        self.frontier.end(plan);
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
        sent.chain(self.frontier.ready()).map(|node| plan.name(node).to_owned()).collect()
    }

    pub(crate) fn graph_name(&self) -> String {
        self.task.graph.plan.graph().to_owned()
    }
}

fn exit<S: Values, C>(graph: &Inner<S, C>, node: Option<usize>) -> &Exit {
    node.map_or(&graph.plan.start, |node| &graph.plan.exits[node])
}

/// What is the same for all tasks of a run.
pub(crate) fn shared<S: Values, C>(
    graph: &Inner<S, C>,
    context: Arc<C>,
    config: Arc<crate::Config>,
    namespace: Vec<String>,
    emitter: Option<&Arc<Emitter<S>>>,
) -> Shared<C> {
    let outlet = emitter.map(|emitter| emitter.clone() as Arc<dyn super::stream::Outlet>);
    Shared { context, config, plan: graph.plan.clone(), namespace, outlet, id: OnceLock::new() }
}

fn started<S: Values, C>(task: &Task<S, C>) -> TaskStarted {
    let input = task.sent_json().ok().flatten();
    TaskStarted {
        id: task.run.task_id(),
        node: task.run.node().to_owned(),
        step: task.run.key.step,
        triggers: match task.run.key.send {
            Some(_) => vec!["__pregel_push".to_owned()],
            None => task.graph.plan.triggers(task.run.key.node).to_vec(),
        },
        input: input.or_else(|| state_json(task.state()).ok()).unwrap_or_default(),
    }
}

/// Tells what a task did, as soon as it has ended.
fn report<S: Values, C>(emitter: &Emitter<S>, task: &Task<S, C>, result: &TaskResult<S>) {
    let node = task.run.node();
    if let Ok(done) = result
        && done.parent.is_none()
        && emitter.wants(StreamMode::Updates)
    {
        let node = if done.by == By::Handler { format!("__error_handler__{node}") } else { node.to_owned() };
        let update = S::Update::from_writes(done.writes.clone());
        emitter.emit(Event::Updates(NodeUpdate { node, update, cached: done.by == By::Cache }));
    }
    if !emitter.wants_tasks() || matches!(result, Ok(done) if done.by == By::Cache) {
        return;
    }
    let (result, error, interrupts) = match result {
        Ok(done) => (done.writes.to_json().unwrap_or_default(), None, Vec::new()),
        Err(error) => match error.kind() {
            NodeErrorKind::Interrupt(questions) => (serde_json::Value::Null, None, questions.clone()),
            _ => (serde_json::Value::Null, Some(error.to_string()), Vec::new()),
        },
    };
    let (id, step) = (task.run.task_id(), task.run.key.step);
    emitter.finished(TaskFinished { id, node: node.to_owned(), step, result, error, interrupts });
}

