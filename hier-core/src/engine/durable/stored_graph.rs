//! Reads the stored data of a graph under the lease of the thread.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Conversation, Kept, ListQuery, Saved, SaverError, Since};
use crate::config::Config;
use crate::engine::durable::heads::{HeadReader, SubgraphHead, read_head};
use crate::engine::durable::input;
use crate::engine::durable::recall::RecalledConversations;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Checkpoints, GraphContext, Task};
use crate::state::Values;

/// The stored data from which a run of a graph continues. All fields are empty if the graph has not run yet.
#[derive(Default)]
pub(in crate::engine) struct StoredGraph {
    pub(in crate::engine) saved: Option<Saved>,
    /// Conversations in memory. `saved` does not contain their values.
    pub(in crate::engine) conversations: Vec<Conversation>,
    /// None if the thread's conversations are not kept in memory.
    pub(in crate::engine) conversations_since: Option<Since>,
    /// The greatest checkpoint id of the thread and namespace.
    pub(in crate::engine) newest: Option<Uuid>,
    pub(in crate::engine) heads: Option<Arc<Kept>>,
}

/// Reads the root graph of a thread at the checkpoint in the configuration. Defaults to the latest checkpoint.
pub(in crate::engine) async fn read_root<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    saver: &Saver,
    config: &Config,
) -> Result<StoredGraph, SaverError> {
    let ThreadReader { graph, thread } = reader;
    let mut recalled = RecalledConversations::take(graph, saver, thread, config);
    let mut found = recalled.read(graph, saver, thread, config.checkpoint).await?;
    let newest = match config.checkpoint {
        Some(_) => newest_of_thread(saver, thread).await?,
        None => None,
    };
    let newest = newest.or(found.as_ref().map(|found| found.checkpoint.id));
    let heads = HeadReader { graph, saver, thread, namespace: &[] };
    let heads = heads.at(found.as_ref().map(|found| &found.checkpoint), config.checkpoint).await?;
    if let Some(found) = &mut found {
        input::complete(saver, thread, "", found).await?;
    }
    let RecalledConversations { conversations, since } = recalled;
    Ok(StoredGraph { saved: found, conversations, conversations_since: since, newest, heads })
}

async fn newest_of_thread(saver: &Saver, thread: &str) -> Result<Option<Uuid>, SaverError> {
    let listed = saver.list(ListQuery { limit: Some(1), ..ListQuery::thread(thread) }).await?;
    Ok(listed.first().map(|listed| listed.checkpoint.id))
}

/// Reads the subgraph that a task runs. `log` is the log of the subgraph, and `namespace` has the segments of its
/// namespace.
pub(in crate::engine) async fn read_subgraph<S, C, T, D>(
    reader: ThreadReader<'_, T, D>,
    log: &TaskLog,
    namespace: &[String],
    task: &Task<S, C>,
) -> Result<StoredGraph, SaverError>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
{
    let ThreadReader { graph, thread } = reader;
    let saver = &log.committer.saver;
    let is_per_thread = task.subgraph_checkpoints() == Checkpoints::PerThread;
    // Before its first attempt, a task that was not resumed has stored nothing.
    let is_first = !is_per_thread && !task.run.is_resumed() && task.run.attempt() == 1;
    let SubgraphHead { mut saved, newest } =
        if is_first { SubgraphHead::default() } else { read_call(log, thread, task, is_per_thread).await? };
    let mut heads = None;
    // If this is the first call in its namespace, its subgraphs have not stored anything either.
    if saved.is_some() || is_per_thread {
        let checkpoint = saved.as_ref().map(|saved| &saved.checkpoint);
        let bound = checkpoint.map(|checkpoint| checkpoint.id).filter(|id| Some(*id) != newest);
        heads = HeadReader { graph, saver, thread, namespace }.at(checkpoint, bound).await?;
    }
    if let Some(saved) = &mut saved {
        input::complete(saver, thread, &log.namespace, saved).await?;
    }
    Ok(StoredGraph { saved, newest, heads, ..StoredGraph::default() })
}

async fn read_call<S: Values, C: GraphContext>(
    log: &TaskLog,
    thread: &str,
    task: &Task<S, C>,
    is_per_thread: bool,
) -> Result<SubgraphHead, SaverError> {
    let saver = &log.committer.saver;
    // The background writer may not have stored the latest records yet.
    log.committer.flush().await?;
    match &task.run.shared.log {
        Some(outer) if is_per_thread => read_head(saver, outer, thread, &log.namespace).await,
        _ => {
            let found = saver.get(thread, &log.namespace, None).await?;
            let newest = found.as_ref().map(|found| found.checkpoint.id);
            Ok(SubgraphHead { saved: found, newest })
        }
    }
}
