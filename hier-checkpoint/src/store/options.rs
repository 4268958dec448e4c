use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::StoreError;
use super::index::{Embedder, Indexing, paths_of};

/// The options of a store: its index for searches by similarity, and the time to live of items.
///
/// ```
/// use std::time::Duration;
/// use hier_checkpoint::store::{MemoryStore, StoreOptions};
///
/// let week = Duration::from_hours(168);
/// let store = MemoryStore::new(StoreOptions::default().time_to_live(week));
/// ```
#[derive(Clone)]
#[must_use]
pub struct StoreOptions {
    pub(super) indexing: Option<Indexing>,
    pub(super) time_to_live: Option<Duration>,
    pub(super) refresh_on_read: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { indexing: None, time_to_live: None, refresh_on_read: true }
    }
}

impl StoreOptions {
    /// Adds an index for searches by similarity. The embedder converts the texts in these fields of each item to
    /// vectors. [`Index::Fields`](super::Index::Fields) describes the paths in `fields`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Invalid`] for an invalid path, and if `fields` is empty.
    pub fn index<'a>(
        mut self,
        embedder: impl Embedder,
        fields: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        let fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        self.indexing = Some(Indexing { embedder: Arc::new(embedder), fields: paths_of(&fields)? });
        Ok(self)
    }

    /// Returns true if there is an index for searches by similarity.
    pub fn has_index(&self) -> bool {
        self.indexing.is_some()
    }

    /// Sets the time after which an item expires, unless the write of the item sets another time. By default, items do
    /// not expire.
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.time_to_live = Some(time);
        self
    }

    /// Sets whether reading an item restarts its time to live. Defaults to true.
    pub fn refresh_on_read(mut self, refresh: bool) -> Self {
        self.refresh_on_read = refresh;
        self
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("index", &self.indexing.is_some())
            .field("time_to_live", &self.time_to_live)
            .field("refresh_on_read", &self.refresh_on_read)
            .finish()
    }
}
