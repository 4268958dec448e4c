//! Updates of a thread's state from outside its runs.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Checkpoint, CodecError, Kept, Saved, SaverError, Source, WriteRecord};
use crate::config::Config;
use crate::engine::attempt::resolve;
use crate::engine::attempt::route::{safely, with_routes};
use crate::engine::durable::inside::{Line, Refused};
use crate::engine::durable::journal::{Journal, StepMetadata};
use crate::engine::durable::kept::{CALL, Place, newest};
use crate::engine::durable::level::levels;
use crate::engine::durable::load::{Known, Loaded, Reader, load};
use crate::engine::durable::pending::Pending;
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{By, Command, Done, Plan, Program, TaskKey};
use crate::engine::step::{Applied, Last, Position, Returns};
use crate::engine::thread::snapshot;
use crate::engine::thread::snapshot::addressed;
use crate::engine::thread::update::{Author, StateUpdate};
use crate::error::RunError;
use crate::state::Values;

/// Makes updates, each list as one superstep, and returns the configuration that addresses the last checkpoint.
pub(crate) async fn revise<S, C>(
    graph: &Program<S, C>,
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

/// Refuses updates that cannot be made.
pub(crate) async fn check_updates<S, C>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    supersteps: &[Vec<StateUpdate<S>>],
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph.plan.graph().to_owned() })?;
    check(Reader { graph, thread }, saver, config, supersteps).await
}

/// Refuses updates that cannot be made. Of those after the first superstep only the names are known before it is made.
pub(in crate::engine) async fn check<S, C>(
    reader: Reader<'_, S, C>,
    saver: &Saver,
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
        resolve::from_outside(plan, command.jumps.iter().cloned())?;
    }
    let line = Line::of(saver, reader.thread, &config.namespace).await.map_err(|error| reader.failed(error))?;
    check_open(&reader, saver, &line, &config.namespace).await?;
    let (mut revision, _) = read(reader, saver, config).await?;
    revision.make(supersteps.iter().take(1).flatten().map(StateUpdate::again).collect()).map(|_| ())
}

/// Rejects changes to a call that has ended: no run would ever continue from them.
async fn check_open<S, C>(
    reader: &Reader<'_, S, C>,
    saver: &Saver,
    line: &Line,
    namespace: &str,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let closed = line.closed(saver, reader.thread, namespace).await.map_err(|refused| refused.told(reader))?;
    let Some(closed) = closed else { return Ok(()) };
    let reason = format!(
        "the call with the namespace `{closed}` of thread `{}` is over, and nothing goes on from it: update a checkpoint of the graph around \
         it from before the call, and run that",
        reader.thread
    );
    Err(RunError::Update { graph: reader.graph.plan.graph().to_owned(), reason })
}

fn no_node(plan: &Plan, name: &str) -> RunError {
    let tail = hier_spec::did_you_mean(name, plan.names());
    RunError::Update { graph: plan.graph().to_owned(), reason: format!("`{name}` is no node{tail}") }
}

/// A thread that is about to be updated.
struct Revision<'a, S: Values, C> {
    reader: Reader<'a, S, C>,
    state: S,
    position: Position<S>,
    pending: Pending,
    /// The checkpoint that the update follows; none if nothing is stored.
    checkpoint: Option<Checkpoint>,
}

/// One superstep from outside.
async fn superstep<S, C>(
    graph: &Program<S, C>,
    committer: &Arc<Committer>,
    config: &Config,
    updates: Vec<StateUpdate<S>>,
) -> Result<Uuid, RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let reader = Reader { graph, thread: &committer.lease.thread };
    let (saver, namespace) = (&committer.saver, config.namespace.as_str());
    let fail = |error| RunError::Saver { graph: graph.plan.graph().to_owned(), error };
    let line = Line::of(saver, reader.thread, namespace).await.map_err(fail)?;
    check_open(&reader, saver, &line, namespace).await?;
    let (mut revision, mut known) = read(reader, saver, config).await?;
    let log = Arc::new(TaskLog::new(committer.clone(), namespace.into()));
    // A copy goes back to its checkpoint; what else is done drops what has been begun since.
    let copies = updates.iter().any(|update| update.by == Author::Copy);
    log.keep_all(revision.kept(saver, &levels(namespace), &known, copies).await.map_err(fail)?);
    let source = revision.make(updates)?;
    let parents = revision.checkpoint.as_ref().map(|checkpoint| checkpoint.parents.clone()).unwrap_or_default();
    if source == Source::Fork {
        known.base = revision.checkpoint.as_ref().and_then(|checkpoint| checkpoint.parent);
    }
    let mut metadata = config.metadata.clone();
    // It belongs to the call whose state it changes.
    let call = revision.checkpoint.as_ref().and_then(|checkpoint| checkpoint.metadata.get(CALL));
    metadata.extend(call.map(|call| (CALL.to_owned(), call.clone())));
    let mut journal = Journal::new(graph, log, Arc::new(metadata), parents, known);
    let record = revision.record(&mut journal, source)?;
    let mut records = match record {
        Some(record) => vec![record],
        None => journal.take_held(|| (graph.initial)())?,
    };
    if let Some(WriteRecord::Checkpoint { checkpoint, .. }) = records.first() {
        let around = line.follow(saver, &committer.lease.thread, namespace, checkpoint).await;
        records.extend(around.map_err(|refused| refused.told(&Reader { graph, thread: &committer.lease.thread }))?);
    }
    committer.commit_now(records).await.map_err(fail)?;
    Ok(journal.base.unwrap_or_default())
}

/// Reads the thread that the configuration addresses.
async fn read<'a, S, C>(
    reader: Reader<'a, S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<(Revision<'a, S, C>, Known), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (thread, namespace) = (reader.thread, config.namespace.as_str());
    let mut found = addressed(saver, thread, config).await.map_err(|error| reader.failed(error))?;
    if let Some(found) = &mut found {
        let completed = crate::engine::durable::input::complete(saver, thread, namespace, found).await;
        completed.map_err(|error| reader.failed(error))?;
    }
    if let (None, Some(id)) = (&found, config.checkpoint) {
        return Err(RunError::NoCheckpoint { thread: thread.to_owned(), checkpoint: id.to_string() });
    }
    let newest = newest(saver, thread, namespace, None, None).await.map_err(|error| reader.failed(error))?;
    open(reader, saver, newest.map(|newest| newest.id), found, !namespace.is_empty()).await
}

async fn open<'a, S, C>(
    reader: Reader<'a, S, C>,
    saver: &Saver,
    newest: Option<Uuid>,
    found: Option<Saved>,
    is_child: bool,
) -> Result<(Revision<'a, S, C>, Known), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let graph = reader.graph;
    let Some(mut found) = found else {
        let mut position = Position::new(graph, is_child);
        position.ledger.keep_notes(&graph.channels, &[]);
        let (state, pending) = ((graph.initial)(), Pending::default());
        return Ok((
            Revision { reader, state, position, pending, checkpoint: None },
            Known { newest, ..Known::default() },
        ));
    };
    snapshot::inherited(graph, saver, reader.thread, &mut found).await?;
    // What is changed in a subgraph is handed back with what its nodes write.
    let loaded = load(&reader, (graph.initial)(), newest, found, is_child)?;
    let Loaded { checkpoint, state, position, pending, known } = loaded;
    let mut revision = Revision { reader, state, position, pending, checkpoint: Some(checkpoint) };
    revision.apply_commands()?;
    Ok((revision, known))
}

impl<S: Values, C: Send + Sync + 'static> Revision<'_, S, C> {
    /// What the graph's subgraphs keep; what calls of the open step have done is part of it, unless it is in the past.
    async fn kept(
        &self,
        saver: &Saver,
        namespace: &[String],
        known: &Known,
        copies: bool,
    ) -> Result<Option<Arc<Kept>>, SaverError> {
        let Reader { graph, thread } = self.reader;
        let place = Place { graph, saver, thread, namespace };
        let (checkpoint, is_past) = (self.checkpoint.as_ref(), known.base != known.newest);
        let mut kept = place.opened(checkpoint, known.base.filter(|_| is_past)).await?;
        if let Some(checkpoint) = checkpoint.filter(|_| !is_past && !copies) {
            let keys: Vec<TaskKey> = self.position.tasks(self.step()).collect();
            place.begun(&mut kept, &self.pending, keys.into_iter(), checkpoint.id).await?;
        }
        Ok(kept)
    }

    fn wrong(&self, reason: impl Into<String>) -> RunError {
        RunError::Update { graph: self.reader.graph.plan.graph().to_owned(), reason: reason.into() }
    }

    /// What commands of callers have written belongs to the state, and where they led to what runs next.
    fn apply_commands(&mut self) -> Result<(), RunError> {
        let graph = self.reader.graph;
        let unfit = |error: CodecError| self.reader.unfit(error);
        let (writes, destinations) = self.pending.null_writes(&self.reader, &self.state).map_err(unfit)?;
        self.position.apply_outside(graph, &mut self.state, writes)?;
        for destinations in destinations {
            self.position.follow(&graph.plan, destinations);
        }
        Ok(())
    }

    /// Makes the updates. Returns what makes the checkpoint.
    fn make(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Source, RunError> {
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
                    Author::Input => {
                        self.position.set_outside_input(command.writes);
                        Ok(Source::Input)
                    }
                    Author::Copy if self.checkpoint.is_some() => self.copy(command),
                    Author::Copy => Err(self.wrong("there is no checkpoint to copy: the thread is empty")),
                    _ => self.finish(&command),
                }
            }
            updates => self.update(updates),
        }
    }

    /// A copy, with what the command writes.
    fn copy(&mut self, command: Command<S>) -> Result<Source, RunError> {
        self.position.apply_outside(self.reader.graph, &mut self.state, command.writes)?;
        Ok(Source::Fork)
    }

    /// What the tasks of the open step have done is applied, what is left is dropped.
    fn finish(&mut self, command: &Command<S>) -> Result<Source, RunError> {
        if !command.writes.is_empty() {
            return Err(self.wrong("END writes nothing: update the state as the node that is to have written it"));
        }
        let (reader, graph) = (&self.reader, self.reader.graph);
        let mut ended = Vec::new();
        for key in self.position.tasks(self.step()) {
            let done = self.pending.done(&graph.plan.path(key), reader, &self.state);
            let done = done.map_err(|error| reader.unfit(error))?;
            ended.extend(done.map(|done| Applied { node: Some(key.node), pushed: key.send.is_some(), done }));
        }
        self.position.discard(graph, &mut self.state, &mut ended)?;
        Ok(Source::Update)
    }

    /// As nodes: their edges are followed; what else was to run next is dropped.
    fn update(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Source, RunError> {
        let graph = self.reader.graph;
        let plan = &graph.plan;
        let mut applied = Vec::new();
        for StateUpdate { command, by } in updates {
            let node = self.author(by)?;
            let destinations = resolve::from_outside(plan, command.jumps)?;
            let done = Done { writes: command.writes, destinations: Some(Box::new(destinations)), by: By::Node };
            let routes = &plan.exit(node).routes;
            let done = safely(|| with_routes(graph, &self.state, routes, done))
                .map_err(|error| self.wrong(error.to_string()))?;
            applied.push(Applied { node, pushed: false, done });
        }
        self.position.revise(graph, &mut self.state, &mut applied)?;
        Ok(Source::Update)
    }

    /// The superstep that the update makes. On a fresh thread the first has number 0.
    fn step(&self) -> i64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step.saturating_add(1))
    }

    /// The node as which an update is made; none is START.
    fn author(&self, by: Author) -> Result<Option<usize>, RunError> {
        let plan = &self.reader.graph.plan;
        match (by, self.position.last()) {
            (Author::Node(name), _) => plan.find(&name).map(Some).ok_or_else(|| no_node(plan, &name)),
            (Author::Last, Last::Node(node)) => Ok(Some(node)),
            (Author::Last, Last::Several) => Err(self.wrong(ambiguous(plan, self.position.among()))),
            _ => Ok(None),
        }
    }

    fn record(mut self, journal: &mut Journal, source: Source) -> Result<Option<WriteRecord>, RunError> {
        let agenda = self.position.agenda(self.reader.graph)?;
        let metadata = StepMetadata { step: self.step(), source, agenda };
        let mut returned = self.position.ledger.returned.as_ref().map(Returns::fresh).unwrap_or_default();
        let mut changes = self.position.ledger.changes.take().unwrap_or_default();
        match self.position.input().filter(|_| source == Source::Input) {
            Some(input) => journal.input(input, &self.state, &mut changes, metadata),
            None => journal.step(&self.state, &mut changes, (self.position.input(), &mut returned), metadata),
        }
    }
}

impl Refused {
    fn told<S: Values, C>(self, reader: &Reader<'_, S, C>) -> RunError {
        match self {
            Self::Saver(error) => reader.failed(error),
            Self::Stored(error) => reader.unfit(error),
            Self::Unsaved(error) => RunError::Encode {
                graph: reader.graph.plan.graph().to_owned(),
                what: "the questions of the graph inside".to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

/// Why an update has to say as which node it is made.
fn ambiguous(plan: &Plan, nodes: &[usize]) -> String {
    let names: Vec<String> = nodes.iter().map(|node| format!("`{}`", plan.name(*node))).collect();
    let why = match &*names {
        [] => "several nodes ran in the last step".to_owned(),
        [node] => format!("{node} ran last, and several edges had set it off at once"),
        several => format!("{} ran in the last step", several.join(", ")),
    };
    format!("{why}: say as which node the update is made, with `as_node`")
}
