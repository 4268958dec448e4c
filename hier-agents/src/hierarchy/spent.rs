//! Reads from the threads of a background subagent the counts that its layers have added. The end of the subagent does
//! not matter.

use futures_core::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::state::background::BackgroundSubagents;
use crate::state::base::BaseState;
use crate::state::counts::{self, LayerCounts};
use hier_core::checkpoint::background;
use hier_core::graph::DynSnapshot;
use hier_core::internals::{ErasedGraph, Saver};
use hier_core::state::State;
use hier_core::{Config, RunError};

/// Returns the counts that a graph has added to the counts `before`, with which it began. The result includes the inner
/// graphs that have not returned their counts: graphs of unfinished tasks, and running background subagents.
pub(super) fn spent<'a>(
    graph: &'a dyn ErasedGraph,
    saver: &'a Saver,
    config: Config,
    before: LayerCounts,
) -> BoxFuture<'a, Result<LayerCounts, RunError>> {
    Box::pin(async move {
        let now = graph.state(saver, &config).await?;
        let Some(checkpoint) = now.checkpoint else { return Ok(LayerCounts::new()) };
        let channels = BaseState::channels();
        let counts = |snapshot: &DynSnapshot| read::<LayerCounts>(&snapshot.values, channels.layer_counts.name());
        let mut spent = counts(&now).since(&before);
        // The state already has the counts of tasks that have ended.
        let open = now.tasks.iter().filter(|task| task.result.is_none());
        let inner = open.filter_map(|task| Some((graph.inner(&task.node).ok()?.graph, task.state.clone()?)));
        let inner: Vec<_> = inner.collect();
        if !inner.is_empty() {
            // The inner graphs began with the state before the superstep.
            let began = counts(&graph.state(saver, &config.clone().checkpoint(checkpoint)).await?);
            for (graph, config) in inner {
                counts::merge(&mut spent, self::spent(graph, saver, config, began.clone()).await?);
            }
        }
        let subagents: BackgroundSubagents = read(&now.values, channels.background_subagents.name());
        for (handle, record) in subagents.running() {
            let Ok(inner) = graph.inner(&record.node) else { continue };
            let outer = config.thread_id().unwrap_or_default();
            let thread = background::thread_of(outer, &record.thread_name(handle));
            let inner = self::spent(inner.graph, saver, Config::new().thread(thread), record.counts.clone());
            counts::merge(&mut spent, inner.await?);
        }
        Ok(spent)
    })
}

/// Reads a channel of a state. Returns its default if the state does not have it.
fn read<T: DeserializeOwned + Default>(values: &Value, channel: &str) -> T {
    values.get(channel).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}
