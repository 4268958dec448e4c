use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::metadata::contains;
use super::run::Run;
use super::status::{RunStatus, ThreadStatus};
use super::thread::ThreadRow;
use hier_checkpoint::checkpoint::background;

/// A query for threads. A field that is `None`, or an empty map, does not restrict the result. The field `ids` has a
/// further effect: if it is `None`, the query finds no temporary threads and no threads of background subagents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// The ids. An empty list finds nothing.
    pub ids: Option<Vec<String>>,
    /// Metadata that a thread must contain ([`contains`]).
    pub metadata: Map<String, Value>,
    /// Further metadata that a thread must contain, such as the owner whose threads the caller may read.
    pub access: Map<String, Value>,
    /// Values that a thread must contain.
    pub values: Map<String, Value>,
    /// The values that threads of certain graphs must contain instead of [`values`](Self::values). The keys are names
    /// of graphs (`graph_id` in the metadata of a thread). Has no effect if `values` is empty.
    pub values_by_graph: BTreeMap<String, Map<String, Value>>,
    /// The status.
    pub status: Option<ThreadStatus>,
    /// The field by which threads are sorted.
    pub sort_by: SortBy,
    /// The direction of the sort order.
    pub order: Order,
    /// The maximum number of threads in the result. Defaults to 10.
    pub limit: usize,
    /// The number of threads to skip.
    pub offset: usize,
    /// True to include the values of the threads in the result. Defaults to true.
    pub with_values: bool,
}

/// Returns true if a query without ids finds the thread.
fn is_listed(thread: &ThreadRow) -> bool {
    !thread.temporary && background::outer_of(&thread.id).is_none()
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            ids: None,
            metadata: Map::new(),
            access: Map::new(),
            values: Map::new(),
            values_by_graph: BTreeMap::new(),
            status: None,
            sort_by: SortBy::default(),
            order: Order::default(),
            limit: 10,
            offset: 0,
            with_values: true,
        }
    }
}

/// The field by which threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// The time of the last change.
    #[default]
    Updated,
    /// The time of creation.
    Created,
    /// The time of the last change of the values.
    StateUpdated,
    /// The id.
    Id,
    /// The name of the status.
    Status,
}

/// The direction of a sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The smallest first.
    Ascending,
    /// The greatest first.
    #[default]
    Descending,
}

impl ThreadQuery {
    /// Returns true if a store must read the values of threads to answer the query.
    pub fn needs_values(&self) -> bool {
        self.with_values || !self.values.is_empty()
    }

    /// Returns true if the query matches the thread. A query finds temporary threads and the threads of background
    /// subagents only by their ids. Stores filter with this method, so a value from a caller never becomes part of an
    /// SQL statement.
    pub fn wants(&self, thread: &ThreadRow) -> bool {
        let in_values = || {
            let Some(Value::Object(values)) = &thread.values else { return false };
            let graph = thread.metadata.get("graph_id").and_then(Value::as_str);
            let wanted = graph.and_then(|graph| self.values_by_graph.get(graph)).unwrap_or(&self.values);
            wanted.iter().all(|(key, wanted)| values.get(key).is_some_and(|value| contains(value, wanted)))
        };
        let in_metadata =
            |(key, want): (&String, &Value)| thread.metadata.get(key).is_some_and(|have| contains(have, want));
        self.status.is_none_or(|status| status == thread.status)
            && self.ids.as_ref().map_or(is_listed(thread), |ids| ids.contains(&thread.id))
            && self.metadata.iter().chain(&self.access).all(in_metadata)
            && (self.values.is_empty() || in_values())
    }

    /// Compares two threads by the sort order of the query.
    pub fn compare(&self, a: &ThreadRow, b: &ThreadRow) -> Ordering {
        let by = match self.sort_by {
            SortBy::Updated => a.updated.cmp(&b.updated),
            SortBy::Created => a.created.cmp(&b.created),
            SortBy::StateUpdated => a.state_updated.cmp(&b.state_updated),
            SortBy::Id => a.id.cmp(&b.id),
            SortBy::Status => a.status.name().cmp(b.status.name()),
        };
        let by = by.then_with(|| a.id.cmp(&b.id));
        if self.order == Order::Descending { by.reverse() } else { by }
    }

    /// Filters and sorts threads, and returns the requested page.
    pub fn page(&self, threads: impl IntoIterator<Item = ThreadRow>) -> Vec<ThreadRow> {
        let mut found: Vec<_> = threads.into_iter().filter(|thread| self.wants(thread)).collect();
        found.sort_by(|a, b| self.compare(a, b));
        let mut page: Vec<_> = found.into_iter().skip(self.offset).take(self.limit).collect();
        if !self.with_values {
            for thread in &mut page {
                thread.values = None;
            }
        }
        page
    }
}

/// A query for runs. A field that is `None` or empty does not restrict the result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunQuery {
    /// The id of the thread.
    pub thread: Option<String>,
    /// The statuses.
    pub status: Vec<RunStatus>,
    /// Metadata that a run must contain.
    pub metadata: Map<String, Value>,
    /// The [number](Run::number) of a run. Selects only runs with a smaller number, which are older.
    pub before: Option<u64>,
    /// The maximum number of runs in the result. Defaults to 10.
    pub limit: usize,
    /// The number of runs to skip.
    pub offset: usize,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self { thread: None, status: Vec::new(), metadata: Map::new(), before: None, limit: 10, offset: 0 }
    }
}

impl RunQuery {
    /// Creates a query for the runs of a thread.
    pub fn thread(thread: impl Into<String>) -> Self {
        Self { thread: Some(thread.into()), ..Self::default() }
    }

    /// Restricts the query to runs that have not ended.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.status = vec![RunStatus::Pending, RunStatus::Running];
        self
    }

    /// Returns true if the query finds only runs that have not ended. Stores then read no other runs.
    pub fn is_live(&self) -> bool {
        !self.status.is_empty() && self.status.iter().all(|status| status.is_live())
    }

    /// Returns true if the query matches the run.
    pub fn wants(&self, run: &Run) -> bool {
        self.thread.as_ref().is_none_or(|thread| *thread == run.thread)
            && self.before.is_none_or(|before| run.number < before)
            && (self.status.is_empty() || self.status.contains(&run.status))
            && self.metadata.iter().all(|(key, want)| run.metadata.get(key).is_some_and(|have| contains(have, want)))
    }
}
