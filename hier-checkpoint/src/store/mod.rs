//! Stores: values that threads share, by namespace and key.
//!
//! Nodes access a store with `Run::store`. The semantics are those of `BaseStore` in LangGraph 1.2, with three
//! differences. If a program stores an item again, the item keeps its creation time. A filter on a field that an item
//! lacks is not an error. An expired item becomes invisible at once.
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
//! To write a store, implement [`Store`] with the help of [`plan`], and run the test suite of `hier-testkit`.

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

/// An item of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The namespace, a list of labels.
    pub namespace: Vec<String>,
    /// The key in the namespace.
    pub key: String,
    /// The value.
    pub value: Map<String, Value>,
    /// The time at which the item was created. Replacing the value does not change this time.
    pub created_at: SystemTime,
    /// The time of the last write of the value.
    pub updated_at: SystemTime,
    /// The similarity to the query of the search, from −1 to 1. `None` if the search has no query, or if the item has
    /// no vector.
    pub score: Option<f64>,
}

/// An operation on a store.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Reads an item.
    Get {
        /// The namespace.
        namespace: Vec<String>,
        /// The key in the namespace.
        key: String,
        /// True to restart the item's time to live. `None` for the default in the [`StoreOptions`].
        refresh: Option<bool>,
    },
    /// Stores, replaces or deletes an item.
    Put {
        /// The namespace.
        namespace: Vec<String>,
        /// The key in the namespace.
        key: String,
        /// The value. `None` deletes the item.
        value: Option<Map<String, Value>>,
        /// The fields whose texts a search by similarity compares.
        index: Index,
        /// The time after which the item expires. `None` for the time in the [`StoreOptions`].
        time_to_live: Option<Duration>,
    },
    /// Searches items.
    Search(Search),
    /// Lists namespaces.
    Namespaces(Namespaces),
}

/// The selection of an item's fields. A search by similarity compares the texts in these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// The fields that [`StoreOptions::index`] lists.
    #[default]
    Configured,
    /// No fields.
    None,
    /// The fields at these paths: nested fields (`author.name`), list items (`[0]`, `[-1]`, `[*]`), any field (`*`),
    /// several fields (`{title,body.text}`), or the whole value (`$`).
    Fields(Vec<String>),
}

/// A query for items.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Search {
    /// The labels with which the namespaces must start.
    pub prefix: Vec<String>,
    /// A text. The search sorts the items by their similarity to this text, the most similar item first. Needs a store
    /// with an index ([`StoreOptions::index`]).
    pub query: Option<String>,
    /// The conditions on the fields of an item, by the name of the field. A condition is a value that the field must
    /// equal, or an object of operators (`$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`). An item must meet all conditions.
    ///
    /// If a condition is an object without operators, only the fields that this object contains are compared. A list
    /// matches a list of the same length, item by item. A missing field equals null. The operators `$gt`, `$gte`, `$lt`
    /// and `$lte` compare numbers, and strings that contain numbers. If the operand is any other string, they compare
    /// strings.
    pub filter: Map<String, Value>,
    /// The maximum number of items.
    pub limit: usize,
    /// The number of results to skip.
    pub offset: usize,
    /// True to restart the time to live of the found items. `None` for the default in the [`StoreOptions`].
    pub refresh: Option<bool>,
}

/// A query for namespaces that have items.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Namespaces {
    /// The labels with which the namespaces must start. `*` matches any label.
    pub prefix: Vec<String>,
    /// The labels with which the namespaces must end. `*` matches any label.
    pub suffix: Vec<String>,
    /// The maximum number of labels in a result. The query shortens longer namespaces and removes duplicates. `None`
    /// for whole namespaces. The number must not be 0.
    pub max_depth: Option<usize>,
    /// The maximum number of namespaces.
    pub limit: usize,
    /// The number of results to skip.
    pub offset: usize,
}

/// The result of an [`Op`].
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
    /// A namespace, key, filter or limit is invalid. The string is the reason.
    #[error("{0}")]
    Invalid(String),
    /// The database returned an error or cannot be used.
    #[error(transparent)]
    Saver(#[from] crate::checkpoint::SaverError),
    /// A text could not be converted to a vector. The string is the reason.
    #[error("cannot embed the text: {0}")]
    Embedding(String),
    /// One of several texts could not be converted to a vector. An embedder returns this error. A store converts it to
    /// an error that names the item.
    #[error("cannot embed text {}: {reason}", place + 1)]
    EmbeddingOf {
        /// The index of the text in the argument of `Embedder::embed`.
        place: usize,
        /// The reason.
        reason: String,
    },
}

/// A store, which keeps items by namespace and key. [`StoreExt`] has a method for each operation. The trait is
/// object-safe. Implement it with [`async_trait`](crate::async_trait).
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Carries out a batch of operations, and returns a result for each operation, in the same order. The reads of a
    /// batch do not see the writes of this batch. If the batch writes a key several times, the last write counts. If a
    /// batch deletes all items of a namespace and stores others in it, the namespace keeps its position in the results
    /// of searches.
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError>;

    /// Deletes the expired items and returns their number.
    async fn sweep(&self) -> Result<u64, StoreError>;

    /// Returns true if the store has an index ([`StoreOptions::index`]), which [`Search::near`] needs. Defaults to
    /// false. An agent with many tools can search such a store for the tools that it needs.
    fn searches_by_meaning(&self) -> bool {
        false
    }
}

// The methods have the form that `async_trait` generates, because an `async fn` would box the store's boxed future once
// more.
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
