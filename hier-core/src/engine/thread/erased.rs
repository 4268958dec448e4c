//! Reads and updates threads without the types of their graphs, including those of subgraphs.

use futures_core::future::BoxFuture;
use serde_json::{Error as JsonError, Value};
use uuid::Uuid;

use crate::checkpoint::ListQuery;
use crate::config::Config;
use crate::engine::durable::heads::newest;
use crate::engine::durable::segment::{join_segment, segments};
use crate::engine::log::saver::Saver;
use crate::engine::program::{
    Checkpoints, Command, Decoder, DynSnapshot, DynTask, DynUpdates, ErasedGraph, GraphFacts, InnerGraph, Program,
    SecretChannel, SnapshotTask, StateSnapshot,
};
use crate::engine::stream::event::state_json;
use crate::engine::thread::revise::update_thread;
use crate::engine::thread::snapshot;
use crate::engine::thread::update::StateUpdate;
use crate::error::RunError;
use crate::question::QuestionType;
use crate::state::{Update, Values};

/// Returns the graph of the configuration's namespace. Also returns the configuration with the namespace in its stored
/// form, which may have earlier names of nodes.
pub(crate) async fn addressed<'a>(
    root: &'a dyn ErasedGraph,
    saver: &Saver,
    config: &Config,
) -> Result<(&'a dyn ErasedGraph, Config), RunError> {
    let (mut graph, mut above) = (root, Vec::new());
    for level in segments(&config.namespace) {
        let inner = inside(graph, &level, config)?;
        let next = inner.graph;
        above.push(stored_name(graph.name(), inner, saver, config, &above, level).await?);
        graph = next;
    }
    Ok((graph, config.clone().namespace(above.join("|"))))
}

/// Returns the stored form of a segment. It has an earlier name of the node if checkpoints were stored under that name.
async fn stored_name(
    outer: &str,
    inner: InnerGraph<'_>,
    saver: &Saver,
    config: &Config,
    above: &[String],
    level: String,
) -> Result<String, RunError> {
    let InnerGraph { earlier, name: now, .. } = inner;
    if earlier.is_empty() {
        return Ok(level);
    }
    let called = |name: &str| format!("{name}{}", &level[node_of(&level).len()..]);
    for name in &earlier {
        let found = saver.get(config.thread_id().unwrap_or_default(), &join_segment(above, &called(name)), None).await;
        if found.map_err(|error| RunError::Saver { graph: outer.to_owned(), error })?.is_some() {
            return Ok(called(name));
        }
    }
    Ok(called(&now))
}

pub(crate) async fn update_at(
    root: &dyn ErasedGraph,
    saver: &Saver,
    config: &Config,
    supersteps: &[Vec<DynUpdates>],
) -> Result<Config, RunError> {
    SecretChannel::check(root.secret_channels(), saver)?;
    let (graph, config) = addressed(root, saver, config).await?;
    check_call(root, saver, &config).await?;
    graph.update(saver, &config, supersteps).await
}

fn node_of(level: &str) -> &str {
    match level.rsplit_once(':') {
        Some((node, task)) if Uuid::try_parse(task).is_ok() => node,
        _ => level,
    }
}

fn inside<'a>(outer: &'a dyn ErasedGraph, level: &str, config: &Config) -> Result<InnerGraph<'a>, RunError> {
    let node = node_of(level);
    outer.inner(node).map_err(|inner| {
        let tail = hier_spec::did_you_mean(node, inner.iter().map(String::as_str));
        RunError::Config(format!(
            "namespace `{}`: graph `{}` has no subgraph at a node `{node}`{tail}; the tasks in the state of the outer graph \
             show the namespaces of their subgraphs",
            config.namespace,
            outer.name()
        ))
    })
}

/// Refuses to update a call without checkpoints, because no run would read the update. A subgraph with checkpoints per
/// thread may be updated before its first call.
async fn check_call(root: &dyn ErasedGraph, saver: &Saver, config: &Config) -> Result<(), RunError> {
    let (mut outer, mut above) = (root, Vec::new());
    for level in segments(&config.namespace) {
        let InnerGraph { graph, checkpoints, .. } = inside(outer, &level, config)?;
        let refused = |reason: String| RunError::Update { graph: graph.name().to_owned(), reason };
        let node = node_of(&level);
        if checkpoints == Checkpoints::None {
            return Err(refused(format!(
                "its node `{node}` in graph `{}` has `checkpoints: none`: use `checkpoints: per_call` or \
                 `checkpoints: per_thread`",
                outer.name()
            )));
        }
        let namespace = join_segment(&above, &level);
        if checkpoints == Checkpoints::PerCall || node != level {
            let thread = config.thread_id().unwrap_or_default();
            let found = newest(saver, thread, &namespace).await;
            let found = found.map_err(|error| RunError::Saver { graph: graph.name().to_owned(), error })?;
            found.ok_or_else(|| {
                refused(format!(
                    "thread `{thread}` has no call of the graph in namespace `{namespace}`: the tasks in the state of graph `{}` \
                     show the namespaces of their calls",
                    outer.name()
                ))
            })?;
        }
        above.push(level);
        outer = graph;
    }
    Ok(())
}

impl<S: Values, C: Send + Sync + 'static> ErasedGraph for Program<S, C> {
    fn name(&self) -> &str {
        self.plan.graph()
    }

    fn inner(&self, node: &str) -> Result<InnerGraph<'_>, Vec<String>> {
        let found = self.node(node).ok().and_then(|node| Some((node, self.child(node)?)));
        let Some((node, child)) = found else {
            let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.child.is_some());
            return Err(nodes.map(|(node, _)| self.plan.name(node).to_owned()).collect());
        };
        let name = self.plan.name(node).to_owned();
        let earlier = self.renamed.iter().filter(|(_, new)| *new == name).map(|(old, _)| old.clone()).collect();
        Ok(InnerGraph { graph: child.erased(), checkpoints: self.nodes[node].checkpoints, earlier, name })
    }

    fn secret_channels(&self) -> Vec<SecretChannel> {
        Self::secret_channels(self)
    }

    fn hides(&self, channel: &str) -> bool {
        Self::hides(self, channel)
    }

    fn question_types(&self) -> Vec<QuestionType> {
        Self::question_types(self)
    }

    fn state_schema(&self) -> Value {
        Self::state_schema(self)
    }

    fn facts(&self, generator: &mut schemars::SchemaGenerator) -> GraphFacts {
        Self::facts(self, generator)
    }

    fn state<'a>(&'a self, saver: &'a Saver, config: &'a Config) -> BoxFuture<'a, Result<DynSnapshot, RunError>> {
        Box::pin(async { shown(self, snapshot::snapshot(self, saver, config).await?) })
    }

    fn history<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        query: ListQuery,
    ) -> BoxFuture<'a, Result<Vec<DynSnapshot>, RunError>> {
        Box::pin(async {
            let found = snapshot::history(self, saver, config, query).await?;
            found.into_iter().map(|snapshot| shown(self, snapshot)).collect()
        })
    }

    fn update<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        supersteps: &'a [Vec<DynUpdates>],
    ) -> BoxFuture<'a, Result<Config, RunError>> {
        Box::pin(async {
            let typed = |updates: &Vec<DynUpdates>| updates.iter().map(|update| decoded(self, update)).collect();
            let supersteps = supersteps.iter().map(typed).collect::<Result<Vec<Vec<_>>, _>>()?;
            update_thread(self, saver, config, supersteps).await
        })
    }
}

fn decoded<S: Values, C>(graph: &Program<S, C>, update: &DynUpdates) -> Result<StateUpdate<S>, RunError> {
    let decoder = Decoder { graph };
    let command = match &update.command {
        Some(command) => decoder.command(command)?,
        None => Command { writes: decoder.writes("values", &update.values)?, ..Command::default() },
    };
    let typed = StateUpdate::command(command);
    Ok(match &update.as_node {
        Some(node) => typed.as_node(node),
        None => typed,
    })
}

fn shown<S: Values, C>(graph: &Program<S, C>, snapshot: StateSnapshot<S>) -> Result<DynSnapshot, RunError> {
    let no_json = |error: JsonError| graph.no_json(&error);
    let values =
        if snapshot.unreadable.is_some() { Value::Null } else { state_json(&snapshot.values).map_err(no_json)? };
    let mut tasks = Vec::with_capacity(snapshot.tasks.len());
    for shown in snapshot.tasks {
        tasks.push(task(shown).map_err(no_json)?);
    }
    Ok(DynSnapshot {
        values,
        tasks,
        next: snapshot.next,
        config: snapshot.config,
        checkpoint: snapshot.checkpoint,
        parent: snapshot.parent,
        parents: snapshot.parents,
        step: snapshot.step,
        source: snapshot.source,
        metadata: snapshot.metadata,
        created_at: snapshot.created_at,
        questions: snapshot.questions,
        unreadable: snapshot.unreadable,
    })
}

fn task<U: Update>(task: SnapshotTask<U>) -> Result<DynTask, JsonError> {
    let SnapshotTask { id, node, send, result, error, questions, state } = task;
    let result = result.map(|result| result.writes().to_json()).transpose()?;
    Ok(DynTask { id, node, send, result, error, questions, state })
}
