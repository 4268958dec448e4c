//! Reads the current and earlier states of threads.

use std::collections::BTreeMap;
use std::pin::pin;

use serde_json::Map;

use crate::checkpoint::{Checkpoint, CodecError, ListQuery, Saved, SaverError};
use crate::config::Config;
use crate::engine::attempt::route::type_future;
use crate::engine::durable::input;
use crate::engine::durable::line::CheckpointLine;
use crate::engine::durable::load::{LoadRequest, LoadedThread, load};
use crate::engine::durable::names::{RETURNED, START};
use crate::engine::durable::segment::{TaskNode, join_segment, segments, stored_segment};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::saver::Saver;
use crate::engine::program::{GraphContext, Program, SnapshotTask, StateSnapshot, TaskOutcome};
use crate::engine::step::Applied;
use crate::error::RunError;
use crate::state::{Update, Values};

impl<S: Values> StateSnapshot<S> {
    fn empty(values: S, config: Config) -> Self {
        Self {
            values,
            next: Vec::new(),
            config,
            checkpoint: None,
            parent: None,
            parents: BTreeMap::new(),
            step: -2,
            source: None,
            metadata: Map::new(),
            created_at: None,
            tasks: Vec::new(),
            questions: Vec::new(),
            unreadable: None,
        }
    }

    fn of_checkpoint(values: S, config: &Config, checkpoint: &Checkpoint) -> Self {
        Self {
            checkpoint: Some(checkpoint.id),
            parent: checkpoint.parent,
            parents: (*checkpoint.parents).clone(),
            step: checkpoint.step,
            source: Some(checkpoint.source),
            metadata: (*checkpoint.metadata).clone(),
            created_at: Some(checkpoint.created_at()),
            ..Self::empty(values, config.clone().checkpoint(checkpoint.id))
        }
    }
}

pub(crate) async fn snapshot<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<StateSnapshot<S>, RunError> {
    type_future(graph, pin!(read(graph, saver, config))).await
}

async fn read<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<StateSnapshot<S>, RunError> {
    let reader = ThreadReader::of_config(graph, config)?;
    let found = addressed(saver, reader.thread, config).await.map_err(|error| reader.failed(error))?;
    let Some(found) = found else {
        if let Some(checkpoint) = config.checkpoint.filter(|_| !graph.lenient) {
            return Err(RunError::NoCheckpoint {
                thread: reader.thread.to_owned(),
                checkpoint: checkpoint.to_string(),
            });
        }
        return Ok(StateSnapshot::empty((graph.initial)(), config.clone()));
    };
    shown(reader, saver, config, found, config.checkpoint.is_none()).await
}

/// Reads the checkpoint in the configuration. Defaults to the current checkpoint of the thread or the subgraph.
pub(in crate::engine) async fn addressed(
    saver: &Saver,
    thread: &str,
    config: &Config,
) -> Result<Option<Saved>, SaverError> {
    let id = match config.checkpoint {
        None if !config.namespace.is_empty() => match CheckpointLine::read(saver, thread, &config.namespace).await?.own
        {
            Some(own) => Some(own.id),
            None => return Ok(None),
        },
        id => id,
    };
    saver.get(thread, &config.namespace, id).await
}

pub(crate) async fn history<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    query: ListQuery,
) -> Result<Vec<StateSnapshot<S>>, RunError> {
    type_future(graph, pin!(read_all(graph, saver, config, query))).await
}

async fn read_all<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    query: ListQuery,
) -> Result<Vec<StateSnapshot<S>>, RunError> {
    let reader = ThreadReader::of_config(graph, config)?;
    let fail = |error| reader.failed(error);
    let query =
        ListQuery { thread: Some(reader.thread.to_owned()), namespace: Some(config.namespace.clone()), ..query };
    let mut list = Vec::new();
    for listed in saver.list(query).await.map_err(fail)? {
        let id = listed.checkpoint.id;
        if config.checkpoint.is_some_and(|only| only != id) {
            continue;
        }
        if let Some(found) = saver.get(reader.thread, &config.namespace, Some(id)).await.map_err(fail)? {
            let checkpoint = found.checkpoint.clone();
            list.push(match shown(reader, saver, config, found, false).await {
                // A checkpoint that cannot be read does not hide the other checkpoints.
                Err(RunError::Incompatible { reason, .. }) => StateSnapshot {
                    unreadable: Some(reason),
                    ..StateSnapshot::of_checkpoint((graph.initial)(), config, &checkpoint)
                },
                shown => shown?,
            });
        }
    }
    Ok(list)
}

/// Adds the values of shared channels that the subgraph has not written. They come from the checkpoints of outer graphs.
pub(in crate::engine) async fn inherited<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    thread: &str,
    found: &mut Saved,
) -> Result<(), RunError> {
    let fail = |error| RunError::Saver { graph: graph.plan.graph().to_owned(), error };
    let parents = found.checkpoint.parents.clone();
    // Reads the innermost graph first. Its namespace is the longest, and therefore the last one in order.
    for (namespace, id) in parents.iter().rev() {
        let Some(outer) = saver.get(thread, namespace, Some(*id)).await.map_err(fail)? else { break };
        for (index, chain) in outer.values {
            let Some(name) = outer.checkpoint.channels.get(index) else { continue };
            let expires = graph.channels.iter().any(|spec| spec.name == **name && spec.kind.expires());
            let own = found.checkpoint.channels.iter().position(|own| own == name);
            let Some(own) = own.filter(|own| !expires && !found.values.iter().any(|(known, _)| known == own)) else {
                continue;
            };
            if &**name != START && &**name != RETURNED {
                found.values.push((own, chain));
            }
        }
    }
    Ok(())
}

async fn shown<S: Values, C: GraphContext>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
    mut found: Saved,
    live: bool,
) -> Result<StateSnapshot<S>, RunError> {
    let ThreadReader { graph, thread } = reader;
    input::complete(saver, thread, &config.namespace, &mut found).await.map_err(|error| reader.failed(error))?;
    inherited(graph, saver, thread, &mut found).await?;
    let newest = Some(found.checkpoint.id);
    let initial = (graph.initial)();
    let request = LoadRequest { saved: found, conversations: Vec::new(), newest, initial, is_child: false };
    let mut snapshot = view(reader, config, load(reader, request)?, live).map_err(|error| reader.unfit(error))?;
    let namespace = segments(&config.namespace);
    for task in &mut snapshot.tasks {
        let Some(node) = graph.plan.find(&task.node).filter(|node| graph.child(*node).is_some()) else { continue };
        let segment = stored_segment(graph, saver, thread, &namespace, TaskNode { node, id: task.id }).await;
        let segment = segment.map_err(|error| reader.failed(error))?;
        task.state = Some(Config::new().thread(thread).namespace(join_segment(&namespace, &segment)));
    }
    Ok(snapshot)
}

/// Makes the snapshot of a checkpoint. The caller adds the addresses of subgraphs.
fn view<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    config: &Config,
    loaded: LoadedThread<S>,
    live: bool,
) -> Result<StateSnapshot<S>, CodecError> {
    let LoadedThread { checkpoint, mut state, mut position, pending, .. } = loaded;
    let graph = reader.graph;
    let plan = &graph.plan;
    let effect = pending.command_effect(reader, &state)?;
    let done = TaskOutcome::input(effect.writes);
    position.preview(graph, &mut state, &mut [Applied { node: None, pushed: false, done }]);
    position.follow(plan, effect.destinations);
    let (mut next, mut tasks, mut questions, mut ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // START counts as done as soon as another task of its superstep has stored something.
    let has_begun = live && pending.records().next().is_some();
    if position.has_input() && !has_begun {
        next.push(hier_spec::START.to_owned());
    }
    let namespace = segments(&config.namespace);
    for key in position.tasks(checkpoint.step.saturating_add(1)) {
        let place = &*plan.path(key);
        let id = pending.id(place).unwrap_or_else(|| plan.task_id(checkpoint.id, &namespace, key));
        let node = plan.name(key.node).to_owned();
        let done = pending.done(place, reader, &state)?;
        let mut asked = pending.questions(place)?;
        if live {
            asked.retain(|question| !question.answered && done.is_none());
        }
        if !live || done.is_none() {
            next.push(node.clone());
        }
        questions.extend(asked.iter().cloned());
        let result = done.as_ref().map(|done| S::Update::from_writes(done.writes.clone()));
        ended.extend(done.map(|done| Applied { node: Some(key.node), pushed: key.send.is_some(), done }));
        let error = pending.error(place)?;
        tasks.push(SnapshotTask { id, node, send: key.send, result, error, questions: asked, state: None });
    }
    if has_begun {
        position.show_input(plan, &mut ended);
        position.preview(graph, &mut state, &mut ended);
    }
    Ok(StateSnapshot { next, tasks, questions, ..StateSnapshot::of_checkpoint(state, config, &checkpoint) })
}
