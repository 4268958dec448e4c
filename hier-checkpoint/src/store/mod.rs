//! Memory across threads: items by namespace and key.
//!
//! Nodes access it with `Run::store`. The rules are those of LangGraph 1.2 (`BaseStore`), with three differences. Putting an item
//! again keeps its creation time. Comparing a missing field is not an error. An expired item is invisible at once.
//!
//! ```
//! use hier_checkpoint::store::{MemoryStore, Search, StoreExt};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hier_checkpoint::store::StoreError> {
//! let store = MemoryStore::default();
//! store.put(["users", "ada"], "food", &json!({ "likes": "figs", "stars": 5 })).await?;
//! let found = store.search(Search::below(["users"]).filter("stars", json!({ "$gte": 4 }))).await?;
//! assert_eq!(found[0].value["likes"], "figs");
//! # Ok(())
//! # }
//! ```
//!
//! The author of a store implements [`Store`] with the help of [`plan`], and runs the suite of `hier-testkit`.

mod ext;
mod filter;
mod index;
mod memory;
mod options;
mod path;
pub mod plan;
mod rules;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
pub use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use ext::StoreExt;
#[doc(hidden)]
pub use filter::same_number;
pub use index::Embedder;
pub use memory::MemoryStore;
pub use options::StoreOptions;
#[doc(hidden)]
pub use rules::TOOL_TEXTS;

/// An item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The namespace: a path of labels.
    pub namespace: Vec<String>,
    /// Its key in the namespace.
    pub key: String,
    /// The value.
    pub value: Map<String, Value>,
    /// The time at which the key was first put.
    pub created_at: SystemTime,
    /// The time at which it was last put.
    pub updated_at: SystemTime,
    /// The similarity to the search text, from −1 to 1. None if the search had no text or the item no vector.
    pub score: Option<f64>,
}

/// One operation on a store.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The item with this key.
    Get {
        /// The namespace.
        namespace: Vec<String>,
        /// Its key.
        key: String,
        /// True to restart the time to live on a read. None for the default of the store.
        refresh: Option<bool>,
    },
    /// Stores an item and replaces an existing one. Without a value, deletes it.
    Put {
        /// The namespace.
        namespace: Vec<String>,
        /// Its key.
        key: String,
        /// The value; none deletes.
        value: Option<Map<String, Value>>,
        /// The fields that semantic search uses.
        index: Index,
        /// The time to live. None for the default of the store.
        time_to_live: Option<Duration>,
    },
    /// Items below a namespace.
    Search(Search),
    /// Namespaces.
    Namespaces(Namespaces),
}

/// The fields of an item that semantic search uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// The fields of the store's configuration ([`StoreOptions::index`]).
    #[default]
    Configured,
    /// No fields.
    None,
    /// These paths: fields with dots (`author.name`), items of lists (`[0]`, `[-1]`, `[*]`), any field (`*`), several fields
    /// (`{title,body.text}`); `$` is the whole value.
    Fields(Vec<String>),
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Search {
    /// The labels with which the namespace must start.
    pub prefix: Vec<String>,
    /// Items near this text, nearest first. Needs a store with an index.
    pub query: Option<String>,
    /// Conditions that an item must meet: a value, or an object of operators (`$eq`, `$ne`, `$gt`, `$gte`, `$lt`,
    /// `$lte`). An object restricts only the fields that it has. A list matches a list of the same length, item by item.
    /// A missing field equals null. The ordering operators compare numbers, or strings if the operand is not a number.
    pub filter: Map<String, Value>,
    /// Maximum number of items.
    pub limit: usize,
    /// The number of first results to skip.
    pub offset: usize,
    /// True to restart the time to live of the found items. None for the default of the store.
    pub refresh: Option<bool>,
}

/// A query for namespaces that have items.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Namespaces {
    /// The labels with which the namespace must start. `*` matches any one label.
    pub prefix: Vec<String>,
    /// The labels with which the namespace must end. `*` matches any one label.
    pub suffix: Vec<String>,
    /// Cuts namespaces to this many labels, and returns each once.
    pub max_depth: Option<usize>,
    /// Maximum number of namespaces.
    pub limit: usize,
    /// The number of first results to skip.
    pub offset: usize,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum OpResult {
    /// The result of `Get`.
    Item(Option<Item>),
    /// The result of `Put`.
    Done,
    /// The result of `Search`.
    Items(Vec<Item>),
    /// The result of `Namespaces`.
    Namespaces(Vec<Vec<String>>),
}

/// An error of a store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A namespace, key, filter or limit that cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The database did not answer, or refused, or cannot be used.
    #[error(transparent)]
    Saver(#[from] crate::checkpoint::SaverError),
    /// A text could not be turned into a vector.
    #[error("the text could not be embedded: {0}")]
    Embedding(String),
    /// One of several texts could not be turned into a vector. A store reports its item instead.
    #[error("text {} could not be embedded: {reason}", place + 1)]
    EmbeddingOf {
        /// The index of the text among those passed to the embedder.
        place: usize,
        /// The problem.
        reason: String,
    },
}

/// Keeps items by namespace and key. Object-safe; written with [`async_trait`](crate::async_trait).
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Does these operations. Reads see what was there before the writes of the same batch; of several puts of one key the
    /// last wins.
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError>;

    /// Deletes the items whose time to live has passed, and returns their number.
    async fn sweep(&self) -> Result<u64, StoreError>;

    /// Returns true if the store has an index ([`StoreOptions::index`]), so that [`Search::near`] finds items. Agents
    /// with many tools then search them by meaning. Defaults to false.
    fn searches_by_meaning(&self) -> bool {
        false
    }
}

// Written as `async_trait` writes them, since an `async fn` would box the store's boxed future once more.
impl<T: Store + ?Sized> Store for Arc<T> {
    fn batch<'life0, 'async_trait>(
        &'life0 self,
        ops: Vec<Op>,
    ) -> BoxFuture<'async_trait, Result<Vec<OpResult>, StoreError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        (**self).batch(ops)
    }

    fn sweep<'life0, 'async_trait>(&'life0 self) -> BoxFuture<'async_trait, Result<u64, StoreError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        (**self).sweep()
    }

    fn searches_by_meaning(&self) -> bool {
        (**self).searches_by_meaning()
    }
}
