//! Updates of a thread's state from outside its runs.

use std::pin::pin;
use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Checkpoint, Kept, Saved, SaverError, Source, WhenRunning, WriteRecord, check_new_thread};
use crate::config::Config;
use crate::engine::attempt::resolve;
use crate::engine::attempt::route::{safely, type_future, with_routes};
use crate::engine::durable::heads::{HeadReader, newest};
use crate::engine::durable::input;
use crate::engine::durable::journal::{Journal, JournalStart, StepMetadata};
use crate::engine::durable::line::{CheckpointLine, LineError};
use crate::engine::durable::load::{LoadRequest, LoadedThread, load};
use crate::engine::durable::names::CALL;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::segment::segments;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{By, Command, GraphContext, Plan, Program, TaskKey, TaskOutcome};
use crate::engine::run::lease::claim;
use crate::engine::step::{Applied, Last, Position};
use crate::engine::thread::snapshot;
use crate::engine::thread::snapshot::addressed;
use crate::engine::thread::update::{Author, StateUpdate};
use crate::error::RunError;
use crate::state::{Values, check_outside};

/// Checks the updates, and applies each list as one superstep. Returns the configuration that addresses the last
/// checkpoint.
pub(crate) async fn update_thread<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    supersteps: Vec<Vec<StateUpdate<S>>>,
) -> Result<Config, RunError> {
    let (name, reader) = (graph.plan.graph(), ThreadReader::of_config(graph, config)?);
    type_future(graph, pin!(check(reader, saver, config, &supersteps))).await?;
    let committer = claim(saver, config, WhenRunning::Reject, name).await?;
    let revised = type_future(graph, pin!(revise(graph, &committer, config, supersteps))).await;
    committer.release().await;
    revised
}

async fn revise<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    committer: &Arc<Committer>,
    config: &Config,
    supersteps: Vec<Vec<StateUpdate<S>>>,
) -> Result<Config, RunError> {
    let mut config = config.clone();
    for updates in supersteps {
        let id = superstep(graph, committer, &config, updates).await?;
        config.checkpoint = Some(id);
    }
    Ok(config)
}

/// Refuses updates that cannot be applied. In later supersteps than the first, checks only the names.
async fn check<S: Values, C: GraphContext>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
    supersteps: &[Vec<StateUpdate<S>>],
) -> Result<(), RunError> {
    let plan = &reader.graph.plan;
    if supersteps.is_empty() || supersteps.iter().any(Vec::is_empty) {
        let reason =
            "a superstep has no update, or there is no superstep: give each superstep at least one update".to_owned();
        return Err(RunError::Update { graph: plan.graph().to_owned(), reason });
    }
    for StateUpdate { command, by } in supersteps.iter().flatten() {
        if let Author::Node(name) = by {
            plan.find(name).ok_or_else(|| no_node(plan, name))?;
        }
        resolve::from_outside(plan, command.jumps.iter().cloned())?;
        check_outside(plan.graph(), &(reader.graph.initial)(), &command.writes)?;
    }
    let line =
        CheckpointLine::read(saver, reader.thread, &config.namespace).await.map_err(|error| reader.failed(error))?;
    check_open(reader, saver, &line, &config.namespace).await?;
    let (mut revision, _) = read(reader, saver, config).await?;
    if revision.checkpoint.is_none() {
        check_new_thread(reader.thread).map_err(|error| reader.failed(error))?;
    }
    revision.make(supersteps.iter().take(1).flatten().map(StateUpdate::duplicate).collect()).map(|_| ())
}

/// Refuses to change a call that has ended, because no run would continue from the change.
async fn check_open<S: Values, C: GraphContext>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    line: &CheckpointLine,
    namespace: &str,
) -> Result<(), RunError> {
    let closed =
        line.closed(saver, reader.thread, namespace).await.map_err(|refused| refused.into_run_error(reader))?;
    let Some(closed) = closed else { return Ok(()) };
    let reason = format!(
        "the call in namespace `{closed}` of thread `{}` has ended, and no run continues it: update a checkpoint of the outer graph \
         from before the call, and run that checkpoint",
        reader.thread
    );
    Err(RunError::Update { graph: reader.graph.plan.graph().to_owned(), reason })
}

fn no_node(plan: &Plan, name: &str) -> RunError {
    let tail = hier_spec::did_you_mean(name, plan.names());
    RunError::Update { graph: plan.graph().to_owned(), reason: format!("`{name}` is not a node{tail}") }
}

struct Revision<'a, S: Values, C> {
    reader: ThreadReader<'a, S, C>,
    state: S,
    position: Position<S>,
    pending: Pending,
    /// The checkpoint before the update. None if the thread has no checkpoint.
    checkpoint: Option<Checkpoint>,
}

/// Applies one superstep of updates. Returns the id of its checkpoint.
async fn superstep<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    committer: &Arc<Committer>,
    config: &Config,
    updates: Vec<StateUpdate<S>>,
) -> Result<Uuid, RunError> {
    let reader = ThreadReader { graph, thread: &committer.lease.thread };
    let (saver, namespace) = (&committer.saver, config.namespace.as_str());
    let fail = |error| RunError::Saver { graph: graph.plan.graph().to_owned(), error };
    let line = CheckpointLine::read(saver, reader.thread, namespace).await.map_err(fail)?;
    check_open(reader, saver, &line, namespace).await?;
    let (mut revision, mut start) = read(reader, saver, config).await?;
    let log = Arc::new(TaskLog::new(committer.clone(), namespace.into()));
    // A copy ignores the open superstep. Any other update drops it.
    let copies = updates.iter().any(|update| update.by == Author::Copy);
    log.set_heads(revision.heads(saver, &segments(namespace), &start, copies).await.map_err(fail)?);
    let source = revision.make(updates)?;
    let parents = revision.checkpoint.as_ref().map(|checkpoint| checkpoint.parents.clone()).unwrap_or_default();
    if source == Source::Fork {
        start.base = revision.checkpoint.as_ref().and_then(|checkpoint| checkpoint.parent);
    }
    let mut metadata = config.metadata.clone();
    // The new checkpoint belongs to the same call as the checkpoint before it.
    let call = revision.checkpoint.as_ref().and_then(|checkpoint| checkpoint.metadata.get(CALL));
    metadata.extend(call.map(|call| (CALL.to_owned(), call.clone())));
    let mut journal = Journal::new(graph, log, metadata, parents, start).step_policy(config.step_policy.as_deref());
    let record = revision.record(&mut journal, source)?;
    let mut records = match record {
        Some(record) => vec![record],
        None => journal.take_held(|| (graph.initial)())?,
    };
    if let Some(WriteRecord::Checkpoint { checkpoint, .. }) = records.first() {
        let around = line.follow(saver, &committer.lease.thread, namespace, checkpoint).await;
        records.extend(around.map_err(|refused| refused.into_run_error(reader))?);
    }
    committer.commit_now(records).await.map_err(fail)?;
    Ok(journal.base.unwrap_or_default())
}

async fn read<'a, S: Values, C: GraphContext>(
    reader: ThreadReader<'a, S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<(Revision<'a, S, C>, JournalStart), RunError> {
    let (thread, namespace) = (reader.thread, config.namespace.as_str());
    let mut found = addressed(saver, thread, config).await.map_err(|error| reader.failed(error))?;
    if let Some(found) = &mut found {
        let completed = input::complete(saver, thread, namespace, found).await;
        completed.map_err(|error| reader.failed(error))?;
    }
    if let (None, Some(id)) = (&found, config.checkpoint) {
        return Err(RunError::NoCheckpoint { thread: thread.to_owned(), checkpoint: id.to_string() });
    }
    let newest = newest(saver, thread, namespace).await.map_err(|error| reader.failed(error))?;
    open(reader, saver, newest.map(|newest| newest.id), found, !namespace.is_empty()).await
}

async fn open<'a, S: Values, C: GraphContext>(
    reader: ThreadReader<'a, S, C>,
    saver: &Saver,
    newest: Option<Uuid>,
    found: Option<Saved>,
    is_child: bool,
) -> Result<(Revision<'a, S, C>, JournalStart), RunError> {
    let graph = reader.graph;
    let Some(mut found) = found else {
        let mut position = Position::new(graph, is_child);
        position.track_changes(&graph.channels);
        let (state, pending) = ((graph.initial)(), Pending::default());
        return Ok((
            Revision { reader, state, position, pending, checkpoint: None },
            JournalStart { newest, ..JournalStart::default() },
        ));
    };
    snapshot::inherited(graph, saver, reader.thread, &mut found).await?;
    // The position tracks the writes of the update, so that the subgraph returns them together with the writes of its
    // nodes.
    let request = LoadRequest { saved: found, conversations: Vec::new(), newest, initial: (graph.initial)(), is_child };
    let LoadedThread { checkpoint, mut state, mut position, pending, start } = load(reader, request)?;
    let effect = pending.command_effect(reader, &state).map_err(|error| reader.unfit(error))?;
    position.apply_outside(graph, &mut state, effect.writes)?;
    position.follow(&graph.plan, effect.destinations);
    Ok((Revision { reader, state, position, pending, checkpoint: Some(checkpoint) }, start))
}

impl<S: Values, C: Send + Sync + 'static> Revision<'_, S, C> {
    /// Returns the heads of the graph's subgraphs. Includes the heads of open calls, unless the checkpoint is in the
    /// past or the update copies it.
    async fn heads(
        &self,
        saver: &Saver,
        namespace: &[String],
        start: &JournalStart,
        copies: bool,
    ) -> Result<Option<Arc<Kept>>, SaverError> {
        let ThreadReader { graph, thread } = self.reader;
        let reader = HeadReader { graph, saver, thread, namespace };
        let (checkpoint, is_past) = (self.checkpoint.as_ref(), start.base != start.newest);
        let mut heads = reader.at(checkpoint, start.base.filter(|_| is_past)).await?;
        if let Some(checkpoint) = checkpoint.filter(|_| !is_past && !copies) {
            let keys: Vec<TaskKey> = self.position.tasks(self.step()).collect();
            reader.add_open_calls(&mut heads, &self.pending, keys.into_iter(), checkpoint.id).await?;
        }
        Ok(heads)
    }

    fn wrong(&self, reason: impl Into<String>) -> RunError {
        RunError::Update { graph: self.reader.graph.plan.graph().to_owned(), reason: reason.into() }
    }

    /// Applies the updates of one superstep. Returns the source of the checkpoint.
    fn make(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Source, RunError> {
        let several = updates.len() > 1;
        let special = |by: &Author| matches!(by, Author::Input | Author::End | Author::Copy);
        if several && updates.iter().any(|update| update.by == Author::Last || special(&update.by)) {
            return Err(self.wrong(
                "if a superstep has several updates, each must name its node with `as_node`, and none can be `__input__`, \
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

    /// Copies the checkpoint, and adds the writes of the command.
    fn copy(&mut self, command: Command<S>) -> Result<Source, RunError> {
        self.position.apply_outside(self.reader.graph, &mut self.state, command.writes)?;
        Ok(Source::Fork)
    }

    /// Applies the finished tasks of the open superstep, and drops its other tasks.
    fn finish(&mut self, command: &Command<S>) -> Result<Source, RunError> {
        if !command.writes.is_empty() {
            return Err(self.wrong("an update as `__end__` cannot write channels: make the update as a node"));
        }
        let (reader, graph) = (self.reader, self.reader.graph);
        let mut ended = Vec::new();
        for key in self.position.tasks(self.step()) {
            let done = self.pending.done(&graph.plan.path(key), reader, &self.state);
            let done = done.map_err(|error| reader.unfit(error))?;
            ended.extend(done.map(|done| Applied { node: Some(key.node), pushed: key.send.is_some(), done }));
        }
        self.position.discard(graph, &mut self.state, &mut ended)?;
        Ok(Source::Update)
    }

    /// Applies updates as results of their nodes, and follows the edges of these nodes. Drops the other next tasks.
    fn update(&mut self, updates: Vec<StateUpdate<S>>) -> Result<Source, RunError> {
        let graph = self.reader.graph;
        let plan = &graph.plan;
        let mut applied = Vec::new();
        for StateUpdate { command, by } in updates {
            let node = self.author(by)?;
            let destinations = resolve::from_outside(plan, command.jumps)?;
            let done = TaskOutcome { writes: command.writes, destinations: Some(Box::new(destinations)), by: By::Node };
            let routes = &plan.exit(node).routes;
            let done = safely(|| with_routes(graph, &self.state, routes, done))
                .map_err(|error| self.wrong(error.to_string()))?;
            applied.push(Applied { node, pushed: false, done });
        }
        self.position.revise(graph, &mut self.state, &mut applied)?;
        Ok(Source::Update)
    }

    /// Returns the number of the superstep of the update. In a new thread, the number is 0.
    fn step(&self) -> i64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step.saturating_add(1))
    }

    /// Returns the node that makes the update. Returns `None` for START.
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
        let Some(unstored) = self.position.begin_checkpoint() else { return Ok(None) };
        journal.checkpoint(&self.state, unstored, metadata)
    }
}

impl LineError {
    fn into_run_error<S: Values, C>(self, reader: ThreadReader<'_, S, C>) -> RunError {
        match self {
            Self::Saver(error) => reader.failed(error),
            Self::Stored(error) => reader.unfit(error),
            Self::Unsaved(error) => RunError::Encode {
                graph: reader.graph.plan.graph().to_owned(),
                what: "the questions of the subgraph".to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

/// The reason why an update must name its node.
fn ambiguous(plan: &Plan, nodes: &[usize]) -> String {
    let names: Vec<String> = nodes.iter().map(|node| format!("`{}`", plan.name(*node))).collect();
    let why = match &*names {
        [] => "several nodes ran in the last superstep".to_owned(),
        [node] => format!("{node} ran last, and several edges had triggered it at once"),
        several => format!("{} ran in the last superstep", several.join(", ")),
    };
    format!("{why}: name the node that makes the update with `as_node`")
}
