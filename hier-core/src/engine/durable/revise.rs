//! Updates of a thread's state from outside its runs.

use std::sync::Arc;

use uuid::Uuid;

use super::journal::{Journal, Stride};
use super::load::{Last, Loaded, Reader};
use super::{Book, Committer, Known, Notes, Pending, load, pending};
use crate::checkpoint::{Agenda, Checkpoint, Checkpointer, CodecError, Record, Saved, Source};
use crate::config::Config;
use crate::engine::apply::{Applied, Ledger};
use crate::engine::exec::{safely, with_routes};
use crate::engine::frontier::Frontier;
use crate::engine::program::{By, Command, Done, Inner, Leads, Parcel, Plan, TaskKey};
use crate::error::RunError;
use crate::state::{Update, Values, Writes};

/// An update of a thread's state from outside its runs, as if a node had returned it.
#[derive(Debug)]
pub struct StateUpdate<S: Values> {
    pub(crate) command: Command<S>,
    pub(crate) by: Author,
}

/// As who an update is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The node that ran last.
    Last,
    Node(String),
    Start,
    Input,
    End,
    Copy,
}

impl<S: Values> StateUpdate<S> {
    fn new(command: Command<S>, by: Author) -> Self {
        Self { command, by }
    }

    /// The same once more.
    fn again(&self) -> Self {
        let Command { writes, jumps, .. } = &self.command;
        Self::new(Command { writes: writes.clone(), jumps: jumps.clone(), ..Command::default() }, self.by.clone())
    }

    /// An update as the node that ran last.
    pub fn update(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Last)
    }

    /// A command as the node that ran last: its targets are followed too.
    pub fn command(command: Command<S>) -> Self {
        Self::new(command, Author::Last)
    }

    /// As this node: its edges are followed, as if it had just run. `__start__` is START.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        let node = node.into();
        self.by = match node.as_str() {
            hier_spec::START => Author::Start,
            hier_spec::END => Author::End,
            "__input__" => Author::Input,
            "__copy__" => Author::Copy,
            _ => Author::Node(node),
        };
        self
    }

    /// As a new input that has not been applied: START runs next, beside what was to run.
    pub fn input(update: impl Update<State = S>) -> Self {
        Self::new(Command::update(update), Author::Input)
    }

    /// Nothing but the node's edges: it counts as done.
    pub fn skip(node: impl Into<String>) -> Self {
        Self::new(Command::new(), Author::Last).as_node(node)
    }

    /// Ends the thread: what tasks of the open step have done is applied, what is left is dropped.
    pub fn finish() -> Self {
        Self::new(Command::new(), Author::End)
    }

    /// A copy of the checkpoint beside it, with the same parent.
    pub fn copy() -> Self {
        Self::new(Command::new(), Author::Copy)
    }
}

/// Makes updates, each list as one superstep, and returns the configuration that addresses the last checkpoint.
pub(crate) async fn revise<S, C>(
    graph: &Arc<Inner<S, C>>,
    committer: &Arc<Committer>,
    config: &Config,
    supersteps: Vec<Vec<StateUpdate<S>>>,
) -> Result<Config, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let mut config = config.clone();
    for updates in supersteps {
        let id = superstep(graph, committer, &config, updates).await?;
        config.checkpoint = Some(id);
    }
    Ok(config)
}

/// Refuses updates that cannot be made. Of those after the first superstep only the names are known before it is made.
pub(super) async fn check<S, C>(
    reader: Reader<'_, S, C>,
    saver: &Arc<dyn Checkpointer>,
    config: &Config,
    supersteps: &[Vec<StateUpdate<S>>],
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let plan = &reader.graph.plan;
    if supersteps.is_empty() || supersteps.iter().any(Vec::is_empty) {
        let reason = "there is a superstep without an update, or none at all: give each at least one".to_owned();
        return Err(RunError::Update { graph: plan.graph().to_owned(), reason });
    }
    for StateUpdate { command, by } in supersteps.iter().flatten() {
        if let Author::Node(name) = by {
            plan.find(name).ok_or_else(|| no_node(plan, name))?;
        }
        let mut targets = command.jumps.iter().filter_map(|jump| jump.node.as_deref());
        if let Some(unknown) = targets.find(|name| plan.find(name).is_none()) {
            return Err(no_node(plan, unknown));
        }
    }
    let (mut revision, _) = read(reader, saver, config).await?;
    revision.make(supersteps.iter().take(1).flatten().map(StateUpdate::again).collect()).map(|_| ())
}

fn no_node(plan: &Plan, name: &str) -> RunError {
    let tail = hier_spec::did_you_mean(name, plan.names());
    RunError::Update { graph: plan.graph().to_owned(), reason: format!("`{name}` is no node{tail}") }
}

/// A thread that is about to be updated.
struct Revision<'a, S: Values, C> {
    reader: Reader<'a, S, C>,
    state: S,
    frontier: Frontier,
    sends: Vec<(usize, Parcel)>,
    last: Last,
    pending: Pending,
    ledger: Ledger<S>,
    /// The checkpoint that the update follows; none if nothing is stored.
    checkpoint: Option<Checkpoint>,
    start: Option<Writes<S>>,
}

/// One superstep from outside.
async fn superstep<S, C>(
    graph: &Arc<Inner<S, C>>,
    committer: &Arc<Committer>,
    config: &Config,
    updates: Vec<StateUpdate<S>>,
) -> Result<Uuid, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let reader = Reader { graph, thread: &committer.lease.thread };
    let (mut revision, mut known) = read(reader, &committer.saver, config).await?;
    let source = revision.make(updates)?;
    let parents = revision.checkpoint.as_ref().map(|checkpoint| checkpoint.parents.clone()).unwrap_or_default();
    if source.0 == Source::Fork {
        known.base = revision.checkpoint.as_ref().and_then(|checkpoint| checkpoint.parent);
    }
    let book = Arc::new(Book::new(committer.clone(), config.namespace.as_str().into()));
    let mut journal = Journal::new(graph, book, Arc::new(config.metadata.clone()), parents, known);
    let record = revision.record(&mut journal, source)?;
    let records = match record {
        Some(record) => vec![record],
        None => journal.take_held(|| (graph.initial)())?,
    };
    let fail = |error| RunError::Saver { graph: graph.plan.graph().to_owned(), error };
    committer.saver.commit(&committer.lease, records).await.map_err(fail)?;
    Ok(journal.base.unwrap_or_default())
}

/// Reads the thread that the configuration addresses.
async fn read<'a, S, C>(
    reader: Reader<'a, S, C>,
    saver: &Arc<dyn Checkpointer>,
    config: &Config,
) -> Result<(Revision<'a, S, C>, Known), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (thread, namespace) = (reader.thread, config.namespace.as_str());
    let get = async |id| saver.get(thread, namespace, id).await.map_err(|error| reader.failed(error));
    let mut found = get(config.checkpoint).await?;
    if let Some(found) = &mut found {
        let completed = super::input::complete(saver, thread, namespace, found).await;
        completed.map_err(|error| reader.failed(error))?;
    }
    if let (None, Some(id)) = (&found, config.checkpoint) {
        return Err(RunError::NoCheckpoint { thread: thread.to_owned(), checkpoint: id.to_string() });
    }
    let newest = get(None).await?.map(|found| found.checkpoint.id);
    open(reader, saver, newest, found, !namespace.is_empty()).await
}

async fn open<'a, S, C>(
    reader: Reader<'a, S, C>,
    saver: &Arc<dyn Checkpointer>,
    newest: Option<Uuid>,
    found: Option<Saved>,
    is_child: bool,
) -> Result<(Revision<'a, S, C>, Known), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let graph = reader.graph;
    // What is changed in a subgraph is handed back with what its nodes write.
    let mut ledger = Ledger::new(&graph.channels, is_child);
    ledger.notes = Some(Box::new(Notes::new(&graph.channels)));
    let Some(mut found) = found else {
        let (state, frontier) = ((graph.initial)(), Frontier::new(&graph.plan));
        let (sends, last, pending) = (Vec::new(), Last::Nothing, Pending::default());
        let revision =
            Revision { reader, state, frontier, sends, last, pending, ledger, checkpoint: None, start: None };
        return Ok((revision, Known { newest, ..Known::default() }));
    };
    super::snapshot::inherited(graph, saver, reader.thread, &mut found).await?;
    let loaded = load(&reader, (graph.initial)(), newest, found)?;
    let Loaded { checkpoint, state, frontier, sends, last, start, recent, migrated, pending, known, .. } = loaded;
    if let Some(notes) = &mut ledger.notes {
        notes.store_again(&migrated);
    }
    ledger.take_up(&graph.channels, &recent);
    let checkpoint = Some(checkpoint);
    let mut revision = Revision { reader, state, frontier, sends, last, pending, ledger, checkpoint, start };
    revision.apply_commands()?;
    Ok((revision, known))
}

/// What makes the checkpoint, and the input that it is to have.
type Made<W> = (Source, Option<W>);

impl<S: Values, C: Send + Sync + 'static> Revision<'_, S, C> {
    fn wrong(&self, reason: impl Into<String>) -> RunError {
        RunError::Update { graph: self.reader.graph.plan.graph().to_owned(), reason: reason.into() }
    }

    /// What commands of callers have written belongs to the state.
    fn apply_commands(&mut self) -> Result<(), RunError> {
        let graph = self.reader.graph;
        let unfit = |error: CodecError| self.reader.unfit(error);
        let (writes, _) = self.pending.null_writes(&self.reader, &self.state).map_err(unfit)?;
        self.ledger.apply_outside(&graph.plan, &graph.channels, &mut self.state, writes)
    }

    fn make(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Made<Writes<S>>, RunError> {
        let several = updates.len() > 1;
        let special = |by: &Author| matches!(by, Author::Input | Author::End | Author::Copy);
        if several && updates.iter().any(|update| update.by == Author::Last || special(&update.by)) {
            return Err(self.wrong(
                "of several updates in one superstep each must name its node with `as_node`, and none can be `__input__`, \
                 `__end__` or `__copy__`",
            ));
        }
        match updates.into_iter().collect::<Vec<_>>() {
            mut one if one.len() == 1 && special(&one[0].by) => {
                let StateUpdate { command, by } = one.remove(0);
                match by {
                    Author::Input => Ok((Source::Input, Some(command.writes))),
                    Author::Copy if self.checkpoint.is_some() => self.copy(command),
                    Author::Copy => Err(self.wrong("there is no checkpoint to copy: the thread is empty")),
                    _ => self.finish(&command),
                }
            }
            updates => self.update(updates),
        }
    }

    /// A copy, with what the command writes.
    fn copy(&mut self, command: Command<S>) -> Result<Made<Writes<S>>, RunError> {
        let graph = self.reader.graph;
        self.ledger.apply_outside(&graph.plan, &graph.channels, &mut self.state, command.writes)?;
        Ok((Source::Fork, None))
    }

    /// What the tasks of the open step have done is applied, what is left is dropped.
    fn finish(&mut self, command: &Command<S>) -> Result<Made<Writes<S>>, RunError> {
        if !command.writes.is_empty() {
            return Err(self.wrong("END writes nothing: update the state as the node that is to have written it"));
        }
        let Some(checkpoint) = &self.checkpoint else { return Ok((Source::Update, None)) };
        let graph = self.reader.graph;
        let (plan, step) = (&graph.plan, checkpoint.step + 1);
        let pushed =
            self.sends.iter().enumerate().map(|(send, (node, _))| TaskKey { node: *node, step, send: Some(send) });
        let pulled = self.frontier.ready().iter().map(|node| TaskKey { node: *node, step, send: None });
        let mut ended = Vec::new();
        for key in pushed.chain(pulled) {
            let reader = &self.reader;
            let done =
                self.pending.done(&plan.path(key), &self.state, |name| reader.node(name), |name| reader.channel(name));
            let done = done.map_err(|error| reader.unfit(error))?;
            ended.extend(done.map(|done| Applied { node: Some(key.node), pushed: key.send.is_some(), done }));
        }
        self.ledger.apply(plan, &graph.channels, &mut self.state, &mut ended)?;
        self.frontier.discard(plan);
        self.sends.clear();
        self.start = None;
        Ok((Source::Update, None))
    }

    /// As nodes: their edges are followed; what else was to run next is dropped.
    fn update(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Made<Writes<S>>, RunError> {
        let graph = self.reader.graph;
        let plan = &graph.plan;
        let mut applied = Vec::new();
        for StateUpdate { command, by } in updates {
            let node = self.author(by)?;
            let mut leads = Leads::default();
            for jump in command.jumps {
                let Some(name) = jump.node else { continue };
                let target = plan.find(&name).ok_or_else(|| no_node(plan, &name))?;
                match jump.parcel {
                    Some(parcel) => leads.sends.push((target, parcel)),
                    None => leads.go.push(target),
                }
            }
            let done = Done { writes: command.writes, leads: Some(Box::new(leads)), by: By::Node };
            let routes = &plan.exit(node).routes;
            let done = safely(|| with_routes(graph, &self.state, routes, done))
                .map_err(|error| self.wrong(error.to_string()))?;
            applied.push(Applied { node, pushed: false, done });
        }
        self.ledger.apply(plan, &graph.channels, &mut self.state, &mut applied)?;
        self.frontier.begin();
        self.sends.clear();
        self.start = None;
        for task in &mut applied {
            if let Some(leads) = &mut task.done.leads {
                leads.go.iter().for_each(|node| self.frontier.signal(plan, *node));
                self.sends.append(&mut leads.sends);
            }
            self.frontier.follow(plan, plan.exit(task.node));
        }
        self.frontier.sort();
        self.frontier.end(plan);
        self.frontier.keep_survivors(plan);
        Ok((Source::Update, None))
    }

    /// The node as which an update is made; none is START.
    fn author(&self, by: Author) -> Result<Option<usize>, RunError> {
        let plan = &self.reader.graph.plan;
        match (by, self.last) {
            (Author::Node(name), _) => plan.find(&name).map(Some).ok_or_else(|| no_node(plan, &name)),
            (Author::Last, Last::Node(node)) => Ok(Some(node)),
            (Author::Last, _) if plan.len() == 1 && self.checkpoint.is_some() => Ok(Some(0)),
            (Author::Last, Last::Several) => {
                Err(self.wrong("several nodes ran in the last step: say as which the update is made, with `as_node`"))
            }
            _ => Ok(None),
        }
    }

    fn record(mut self, journal: &mut Journal, (source, input): Made<Writes<S>>) -> Result<Option<Record>, RunError> {
        let plan = &self.reader.graph.plan;
        let mut agenda = Agenda { start: input.is_some() || self.start.is_some(), ..Agenda::default() };
        agenda.last = self.last.record(plan);
        self.frontier.note(plan, &mut agenda);
        for send in &self.sends {
            let record = pending::send_record(plan, send).map_err(|error| journal.unfit("what was sent", &error))?;
            agenda.sends.push(record);
        }
        // On a fresh thread the first update has step 0.
        let step = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step + 1);
        let stride = Stride { step, source, agenda };
        let mut notes = self.ledger.notes.take().unwrap_or_default();
        if let Some(input) = input {
            return journal.input(&input, &self.state, &mut notes, stride);
        }
        let returned: Vec<S::Write> =
            self.ledger.returned.take().unwrap_or_default().into_iter().map(|(_, write)| write).collect();
        journal.step(&self.state, &mut notes, &returned, stride)
    }
}
