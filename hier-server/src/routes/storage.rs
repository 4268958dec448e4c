//! Measures the space that a thread takes in the database.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::Path;
use hier_core::checkpoint::{Checkpointer, ListQuery, Saved, codec};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::app::Caller;
use crate::auth::Action;
use crate::error::{ApiError, ApiResult};
use crate::fault::saver;

/// The size of a thread. It is the number of encoded bytes, before the database compresses or encrypts them.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ThreadStorage")]
pub(crate) struct Storage {
    thread_id: String,
    /// Sum of `checkpoints`, `channel_values` and `pending_writes`, in bytes.
    total_bytes: usize,
    /// Checkpoints of the graph and its subgraphs, without the values of channels.
    checkpoints: Section,
    channel_values: ChannelBytes,
    /// Stored writes of tasks.
    pending_writes: Section,
}

/// The number of records, and their size in bytes.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "StorageSection")]
struct Section {
    count: usize,
    bytes: usize,
}

impl Section {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// The values of channels. Each version of a channel counts once.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "StorageValues")]
struct ChannelBytes {
    count: usize,
    bytes: usize,
    /// Sizes by channel name. Sums the channels of subgraphs that have the same name.
    by_channel: BTreeMap<String, Versions>,
}

/// The versions of a channel.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "StorageVersions")]
struct Versions {
    versions: usize,
    bytes: usize,
}

impl ChannelBytes {
    fn add(&mut self, channel: &str, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
        let of = self.by_channel.entry(channel.to_owned()).or_default();
        of.versions += 1;
        of.bytes += bytes;
    }
}

/// Sums the sizes of a thread's checkpoints, oldest first.
#[derive(Default)]
struct Measure {
    storage: Storage,
    /// The versions that were counted: namespace, channel and version.
    counted: HashSet<(String, String, Uuid)>,
    /// The namespaces and names of the channels that were counted.
    met: HashSet<(String, String)>,
}

impl Measure {
    fn add(&mut self, namespace: &str, saved: &Saved) -> ApiResult<()> {
        let checkpoint = &saved.checkpoint;
        let body = codec::encode_record(checkpoint).map_err(|error| ApiError::internal(&error))?;
        self.storage.checkpoints.add(body.len());
        for (place, chain) in &saved.values {
            let (Some(channel), Some(version)) = (checkpoint.channels.get(*place), checkpoint.versions.get(*place))
            else {
                continue;
            };
            if !self.counted.insert((namespace.to_owned(), channel.to_string(), *version)) {
                continue;
            }
            // The earlier parts of a value were counted with the checkpoints that added them, if these checkpoints
            // still exist.
            let is_first = self.met.insert((namespace.to_owned(), channel.to_string()));
            let known = if is_first { 0 } else { chain.deltas.len() };
            let pieces = chain.full.iter().chain(&chain.deltas).skip(known);
            pieces.for_each(|bytes| self.storage.channel_values.add(channel, bytes.len()));
        }
        let writes = saved.writes.iter().flat_map(|of| &of.writes);
        writes.for_each(|write| self.storage.pending_writes.add(write.value.len()));
        Ok(())
    }
}

/// Returns the size of a thread. Reads all checkpoints, one after the other.
pub(crate) async fn get(caller: Caller, Path(thread): Path<String>) -> ApiResult<Json<Storage>> {
    let thread = caller.thread(&thread, Action::Read).await?.id;
    let runs = &caller.app.runs;
    let query = ListQuery { thread: Some(thread.clone()), ..ListQuery::default() };
    let listed = runs.list(query).await.map_err(|error| saver(&error))?;
    let mut measure = Measure::default();
    for listed in listed.iter().rev() {
        let saved = runs.get(&thread, &listed.namespace, Some(listed.checkpoint.id)).await;
        // A checkpoint that was pruned meanwhile takes no space.
        if let Some(saved) = saved.map_err(|error| saver(&error))? {
            measure.add(&listed.namespace, &saved)?;
        }
    }
    let mut storage = measure.storage;
    storage.total_bytes = storage.checkpoints.bytes + storage.channel_values.bytes + storage.pending_writes.bytes;
    storage.thread_id = thread;
    Ok(Json(storage))
}
