//! The position of a thread between two supersteps.
//!
//! The driver reads the tasks of a superstep from [`Position::tasks`], runs them in any way, and passes their outcomes
//! to [`Position::apply`]. Between two supersteps, [`Position::agenda`] converts a position to data, and
//! [`Position::restore`] reads it again.

mod stored;

use std::sync::Arc;

use super::frontier::Frontier;
use super::ledger::{Applied, Ledger, path_order};
use super::tasks::StepTasks;
use crate::engine::attempt::route::{route, safely, with_routes};
use crate::engine::program::{By, Destinations, Plan, Program, Routing, Sends, TaskKey, TaskOutcome};
use crate::error::{NodeError, RunError};
use crate::state::{Values, Writes};

/// The position of a thread between two supersteps. The methods take the state as an argument, because the nodes of a
/// superstep borrow it.
pub(crate) struct Position<S: Values> {
    frontier: Frontier,
    /// The Sends of the next superstep. Shared with the driver of the tasks.
    sends: Arc<Sends>,
    /// The number of the first Send. If the Sends of a command replace earlier Sends, they have new numbers, because
    /// the results of the replaced tasks are stored under the old numbers.
    first_send: usize,
    /// True if the Sends are those of commands.
    sent_by_commands: bool,
    /// An input that waits to be applied.
    start: Option<Writes<S>>,
    /// True if the input comes from `update_state`, and the graph has not been entered with the input yet.
    unentered: bool,
    last: Last,
    /// The nodes that may have run last. Only used if `last` is [`Last::Several`].
    among: Vec<usize>,
    /// The nodes that commands have triggered since the last superstep.
    commanded: Vec<usize>,
    pub(super) ledger: Ledger<S>,
}

/// The node that ran last. Nodes are ranks, and tasks of Sends do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Last {
    #[default]
    Nothing,
    Start,
    Node(usize),
    /// Ambiguous: several nodes ran in one superstep, or several triggers of one node changed at once.
    Several,
}

impl<S: Values> Position<S> {
    pub(crate) fn new<C>(graph: &Program<S, C>, is_child: bool) -> Self {
        Self::at(Frontier::new(&graph.plan), graph, is_child)
    }

    fn at<C>(frontier: Frontier, graph: &Program<S, C>, is_child: bool) -> Self {
        Self {
            frontier,
            sends: Arc::default(),
            first_send: 0,
            sent_by_commands: false,
            start: None,
            unentered: false,
            last: Last::Nothing,
            among: Vec::new(),
            commanded: Vec::new(),
            ledger: Ledger::new(&graph.channels, is_child),
        }
    }

    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        self.ledger.is_child()
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.frontier.ready().is_empty() && self.sends.is_empty() && self.start.is_none()
    }

    /// Returns the node of the next superstep, if the superstep consists of one task that an edge triggered.
    #[inline]
    pub(crate) fn single(&self) -> Option<usize> {
        match *self.frontier.ready() {
            [node] if self.sends.is_empty() && self.start.is_none() => Some(node),
            _ => None,
        }
    }

    /// The tasks of the superstep in order: first the tasks of Sends, then the triggered nodes by name.
    pub(crate) fn tasks(&self, step: i64) -> impl Iterator<Item = TaskKey> {
        let sent = (self.first_send..).zip(self.sends.nodes());
        let pushed = sent.map(move |(send, node)| TaskKey { node, step, send: Some(send) });
        pushed.chain(self.frontier.ready().iter().map(move |node| TaskKey { node: *node, step, send: None }))
    }

    /// The tasks of the superstep, for a driver that keeps them while they run.
    pub(crate) fn step(&self, step: i64) -> StepTasks {
        let (first_send, sends) = (self.first_send, self.sends.clone());
        StepTasks { step, first_send, sends, pulled: self.frontier.ready().to_vec() }
    }

    /// The node of each task of the superstep.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.tasks(0).map(|key| key.node)
    }

    /// The name of the node of each task of the superstep.
    pub(crate) fn next(&self, plan: &Plan) -> Vec<String> {
        self.nodes().map(|node| plan.name(node).to_owned()).collect()
    }

    pub(crate) fn last(&self) -> Last {
        self.last
    }

    pub(crate) fn among(&self) -> &[usize] {
        &self.among
    }

    pub(crate) fn input(&self) -> Option<&Writes<S>> {
        self.start.as_ref()
    }

    pub(crate) fn has_input(&self) -> bool {
        self.start.is_some()
    }

    /// Sets an input with which the graph has already been entered.
    pub(crate) fn set_input(&mut self, input: Option<Writes<S>>) {
        (self.start, self.unentered) = (input, false);
    }

    pub(crate) fn restore_input(&mut self, input: Option<Writes<S>>) {
        self.start = input;
    }

    /// Sets an input with which the graph has not been entered yet.
    pub(crate) fn set_outside_input(&mut self, input: Writes<S>) {
        (self.start, self.unentered) = (Some(input), true);
    }

    /// Returns true if an input waits with which the graph has not been entered yet.
    pub(crate) fn waits_to_be_entered(&self) -> bool {
        self.unentered && self.start.is_some()
    }

    /// Returns true if the routes of a node run before its writes are applied, so that they see expiring values.
    #[inline]
    pub(crate) fn routes_first(&self, plan: &Plan, node: usize) -> bool {
        self.ledger.is_expiring() && !plan.exits[node].routes.is_empty()
    }

    /// Returns true if a superstep of this node only changes the values of channels and the next nodes.
    #[inline]
    pub(crate) fn is_simple(&self, plan: &Plan, node: usize) -> bool {
        plan.exits[node].plain && self.ledger.is_simple() && !S::IS_DYNAMIC
    }

    /// Like [`Self::apply_one`], but only for a superstep for which [`Self::is_simple`] returns true. Most supersteps
    /// take this path.
    #[inline]
    pub(crate) fn apply_simply<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        node: usize,
        writes: &mut Writes<S>,
        routing: &mut Routing,
    ) -> Result<(), RunError> {
        let exit = &graph.plan.exits[node];
        self.ledger.merge_simply(&graph.plan, &graph.channels, state, node, writes)?;
        self.last = Last::Node(node);
        self.frontier.advance(exit);
        if exit.routes.is_empty() { Ok(()) } else { self.choose(graph, state, Some(node), routing) }
    }

    /// Applies a superstep of one task, or START. Runs its routes on the new state.
    pub(crate) fn apply_one<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        task: Applied<S>,
        routing: &mut Routing,
    ) -> Result<bool, RunError> {
        let (plan, mut tasks) = (&*graph.plan, [task]);
        let written = self.ledger.apply(plan, &graph.channels, state, &mut tasks)?;
        self.use_up(plan, &tasks);
        self.lead(plan, &mut tasks);
        let [Applied { node, done, .. }] = tasks;
        if plan.exit(node).routes.is_empty() || done.by == By::Handler {
            self.frontier.end(plan);
        } else {
            self.choose(graph, state, node, routing)?;
        }
        Ok(written)
    }

    /// Applies only the waiting input, as START.
    pub(crate) fn begin<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        routing: &mut Routing,
    ) -> Result<bool, RunError> {
        let done = TaskOutcome::input(self.start.take().unwrap_or_default());
        self.apply_one(graph, state, Applied { node: None, pushed: false, done }, routing)
    }

    /// Applies the outcomes of a superstep, in the order of the tasks, together with the waiting input. The routes of
    /// the tasks have already run. Returns true if the superstep has writes.
    pub(crate) fn apply<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        tasks: &mut Vec<Applied<S>>,
    ) -> Result<bool, RunError> {
        let plan = &*graph.plan;
        if let Some(input) = self.start.take() {
            let done = safely(|| with_routes(graph, state, &plan.exit(None).routes, TaskOutcome::input(input)))
                .map_err(|error| route_failed(plan, None, error))?;
            insert_start(plan, tasks, done);
        }
        let written = self.ledger.apply(plan, &graph.channels, state, tasks)?;
        self.use_up(plan, tasks);
        self.lead(plan, tasks);
        self.frontier.end(plan);
        Ok(written)
    }

    /// Adds the waiting input to the outcomes of the tasks that a display shows.
    pub(crate) fn show_input(&self, plan: &Plan, tasks: &mut Vec<Applied<S>>) {
        if let Some(input) = &self.start {
            insert_start(plan, tasks, TaskOutcome::input(input.clone()));
        }
    }

    /// Merges the writes of finished tasks into a state that is only displayed.
    pub(crate) fn preview<C>(&mut self, graph: &Program<S, C>, state: &mut S, tasks: &mut [Applied<S>]) -> bool {
        self.ledger.preview(&graph.plan, &graph.channels, state, tasks)
    }

    /// Merges writes from outside the supersteps. Nothing expires, and the next nodes stay.
    pub(crate) fn apply_outside<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        writes: Writes<S>,
    ) -> Result<(), RunError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.ledger.apply_outside(&graph.plan, &graph.channels, state, writes)
    }

    /// Follows the destinations of commands from outside, in addition to the next nodes. As in LangGraph, the Sends of
    /// commands replace those of the last superstep.
    pub(crate) fn follow(&mut self, plan: &Plan, commands: Vec<Destinations>) {
        for Destinations { go, sends, .. } in commands {
            for node in go {
                self.frontier.signal(plan, node);
                self.commanded.push(node);
            }
            if !sends.is_empty() {
                if !std::mem::replace(&mut self.sent_by_commands, true) {
                    self.first_send += self.sends.len();
                    self.sends = Arc::default();
                }
                self.send(sends);
            }
        }
        self.frontier.sort();
    }

    /// Drops the next superstep as if it had run. Applies the writes of the outcomes in `done`, which are in the order
    /// of the tasks, but does not follow their edges.
    pub(crate) fn discard<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        done: &mut [Applied<S>],
    ) -> Result<(), RunError> {
        if self.is_over() {
            return Ok(());
        }
        let plan = &*graph.plan;
        self.ledger.apply(plan, &graph.channels, state, done)?;
        let pulled = self.frontier.ready().to_vec();
        let has_input = self.start.take().is_some();
        self.note_last(has_input, pulled);
        self.frontier.discard(plan);
        self.clear_sends();
        Ok(())
    }

    /// Applies updates from outside as if these nodes had returned them, in order. As in LangGraph, the nodes of the
    /// next superstep are dropped, except the targets of full joins and released deferred nodes.
    pub(crate) fn revise<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &mut S,
        updates: &mut [Applied<S>],
    ) -> Result<(), RunError> {
        let plan = &*graph.plan;
        self.ledger.apply(plan, &graph.channels, state, updates)?;
        self.start = None;
        self.commanded.clear();
        self.frontier.begin();
        self.lead(plan, updates);
        self.frontier.end(plan);
        self.frontier.keep_survivors(plan);
        Ok(())
    }

    fn use_up(&mut self, plan: &Plan, tasks: &[Applied<S>]) {
        let mut pulled = tasks.iter().filter(|task| !task.pushed).map(|task| task.node);
        match (pulled.next(), pulled.next()) {
            (None, _) => {}
            // The usual superstep needs no list.
            (Some(Some(node)), None) if !self.frontier.is_tied(node) => self.last = Last::Node(node),
            _ => {
                let pulled = tasks.iter().filter(|task| !task.pushed);
                let has_input = pulled.clone().any(|task| task.node.is_none());
                self.note_last(has_input, pulled.filter_map(|task| task.node).collect());
            }
        }
        self.frontier.begin();
        for node in tasks.iter().filter(|task| !task.pushed).filter_map(|task| task.node) {
            self.frontier.consume(plan, node);
        }
    }

    /// Records which node ran last. As in LangGraph, the versions of the triggers decide: the trigger of a command is
    /// newer than an input, and an input is newer than an edge. Nodes with equal versions are ambiguous.
    fn note_last(&mut self, has_input: bool, pulled: Vec<usize>) {
        let commanded: Vec<usize> = pulled.iter().copied().filter(|node| self.commanded.contains(node)).collect();
        let newest = match (commanded.is_empty(), has_input) {
            (false, _) => commanded,
            (true, true) => Vec::new(),
            (true, false) => pulled,
        };
        self.last = match *newest {
            [] if has_input => Last::Start,
            [] => return,
            [node] if !self.frontier.is_tied(node) || self.commanded.contains(&node) => Last::Node(node),
            _ => Last::Several,
        };
        self.among = newest;
    }

    /// Follows the edges and commands of applied tasks. The caller then follows the routes and ends the superstep.
    fn lead(&mut self, plan: &Plan, tasks: &mut [Applied<S>]) {
        self.clear_sends();
        for task in path_order(tasks) {
            if let Some(destinations) = &mut task.done.destinations {
                destinations.go.iter().for_each(|node| self.frontier.signal(plan, *node));
                self.send(std::mem::take(&mut destinations.sends));
            }
            if task.done.by != By::Handler {
                self.frontier.follow(plan, plan.exit(task.node));
            }
        }
    }

    /// Runs the routes of a node or of START on the current state, and follows their results.
    fn choose<C>(
        &mut self,
        graph: &Program<S, C>,
        state: &S,
        node: Option<usize>,
        routing: &mut Routing,
    ) -> Result<(), RunError> {
        let plan = &*graph.plan;
        route(&graph.routes, &plan.exit(node).routes, state, routing)
            .map_err(|error| route_failed(plan, node, error))?;
        routing.go.iter().for_each(|node| self.frontier.signal(plan, plan.rank(*node)));
        routing.go.clear();
        if !routing.sends.is_empty() {
            let sends = routing.sends.take_sends().renumbered(|node| plan.rank(node));
            Arc::make_mut(&mut self.sends).append(sends);
        }
        self.frontier.end(plan);
        Ok(())
    }

    fn send(&mut self, sends: Sends) {
        if !sends.is_empty() {
            Arc::make_mut(&mut self.sends).append(sends);
        }
    }

    #[inline]
    fn clear_sends(&mut self) {
        if !self.sends.is_empty() {
            match Arc::get_mut(&mut self.sends) {
                Some(sends) => sends.clear(),
                None => self.sends = Arc::default(),
            }
        }
        (self.first_send, self.sent_by_commands) = (0, false);
        self.commanded.clear();
    }
}

/// Inserts the outcome of START at its place in the order of the tasks.
fn insert_start<S: Values>(plan: &Plan, tasks: &mut Vec<Applied<S>>, done: TaskOutcome<S>) {
    let is_before = |task: &Applied<S>| task.pushed || task.node.is_some_and(|n| plan.name(n) < hier_spec::START);
    let place = tasks.iter().take_while(|task| is_before(task)).count();
    tasks.insert(place, Applied { node: None, pushed: false, done });
}

fn route_failed(plan: &Plan, node: Option<usize>, error: NodeError) -> RunError {
    let name = node.map_or(hier_spec::START, |node| plan.name(node));
    RunError::Node { graph: plan.graph().to_owned(), node: name.to_owned(), error }
}
