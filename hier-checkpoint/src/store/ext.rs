//! The operations of a store as separate methods, and their arguments.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{BoxFuture, Index, Item, Namespaces, Op, OpResult, Search, Store, StoreError};
use crate::checkpoint::codec;

const ITEMS: usize = 10;
const NAMESPACES: usize = 100;

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The operations of a [`Store`] as separate methods.
///
/// A namespace is a list of labels, such as `["users", "ada"]`. A label is not empty, and does not contain a period or
/// NUL. The first label must not be `hier`. The length of a key, and of the labels of a namespace joined by periods, is
/// at most [`LONGEST_NAME`](crate::checkpoint::LONGEST_NAME) bytes. The methods fail with [`StoreError::Invalid`] for
/// other namespaces and keys.
pub trait StoreExt: Store {
    /// Returns the item with this key, or `None` if no item has this key.
    fn get(&self, namespace: impl Labels, key: impl Into<String>) -> Answer<'_, Option<Item>> {
        let answer = self.batch(vec![Op::Get { namespace: labels(namespace), key: key.into(), refresh: None }]);
        Box::pin(async move {
            match answer.await?.pop() {
                Some(OpResult::Item(item)) => Ok(item),
                _ => Err(no_answer()),
            }
        })
    }

    /// Returns the value with this key as a `T`, or `None` if no item has this key.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Invalid`] if the value is not a `T`.
    fn get_as<T: DeserializeOwned + 'static>(
        &self,
        namespace: impl Labels,
        key: impl Into<String>,
    ) -> Answer<'_, Option<T>> {
        let item = self.get(namespace, key);
        Box::pin(async move { item.await?.map(|item| item.parse()).transpose() })
    }

    /// Stores a value, which must serialize to a JSON object of at most 100 nested levels. Replaces an existing value
    /// with this key.
    fn put<'a>(&'a self, namespace: impl Labels, key: impl Into<String>, value: &impl Serialize) -> Answer<'a, ()> {
        put(self, labels(namespace), key.into(), object(value), None)
    }

    /// Stores a value that expires after `time_to_live`. By default, each read of the value restarts this time
    /// ([`StoreOptions::refresh_on_read`](super::StoreOptions::refresh_on_read)).
    fn put_for<'a>(
        &'a self,
        namespace: impl Labels,
        key: impl Into<String>,
        value: &impl Serialize,
        time_to_live: Duration,
    ) -> Answer<'a, ()> {
        put(self, labels(namespace), key.into(), object(value), Some(time_to_live))
    }

    /// Deletes an item. Does nothing if no item has this key.
    fn delete(&self, namespace: impl Labels, key: impl Into<String>) -> Answer<'_, ()> {
        put(self, labels(namespace), key.into(), Ok(None), None)
    }

    /// Returns the items in the namespaces that start with the labels of the search. If the search has a
    /// [query](Search::near), the most similar item is first. Otherwise, the items are grouped by namespace. The oldest
    /// namespace comes first and, in each namespace, the oldest item.
    fn search(&self, search: Search) -> Answer<'_, Vec<Item>> {
        let answer = self.batch(vec![Op::Search(search)]);
        Box::pin(async move {
            match answer.await?.pop() {
                Some(OpResult::Items(items)) => Ok(items),
                _ => Err(no_answer()),
            }
        })
    }

    /// Returns the namespaces that have items, sorted by their labels.
    fn namespaces(&self, query: Namespaces) -> Answer<'_, Vec<Vec<String>>> {
        let answer = self.batch(vec![Op::Namespaces(query)]);
        Box::pin(async move {
            match answer.await?.pop() {
                Some(OpResult::Namespaces(namespaces)) => Ok(namespaces),
                _ => Err(no_answer()),
            }
        })
    }
}

impl<T: Store + ?Sized> StoreExt for T {}

/// The labels of a namespace: an array, a `Vec` or another collection of strings.
pub trait Labels: IntoIterator<Item: Into<String>> {}

impl<T: IntoIterator<Item: Into<String>>> Labels for T {}

fn labels(namespace: impl Labels) -> Vec<String> {
    namespace.into_iter().map(Into::into).collect()
}

fn put<S: Store + ?Sized>(
    store: &S,
    namespace: Vec<String>,
    key: String,
    value: Result<Option<Map<String, Value>>, StoreError>,
    time_to_live: Option<Duration>,
) -> Answer<'_, ()> {
    match value {
        Ok(value) => {
            let answer = store.batch(vec![Op::Put { namespace, key, value, index: Index::Configured, time_to_live }]);
            Box::pin(async move { answer.await.map(|_| ()) })
        }
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}

fn object(value: &impl Serialize) -> Result<Option<Map<String, Value>>, StoreError> {
    let kind = match codec::to_json(value) {
        Ok(Value::Object(object)) => return Ok(Some(object)),
        Ok(Value::Array(_)) => "a list".to_owned(),
        Ok(other) => format!("`{other}`"),
        Err(error) => return Err(StoreError::Invalid(format!("the value cannot be serialized: {error}"))),
    };
    Err(StoreError::Invalid(format!(
        "a store accepts only objects, not {kind}: put the value into a field of a struct or a map"
    )))
}

fn no_answer() -> StoreError {
    StoreError::Invalid(
        "the store returned the result of another kind of operation: fix its implementation of `batch`".to_owned(),
    )
}

impl Item {
    /// Deserializes the value of the item.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Invalid`] if the value is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        let value = Value::Object(self.value.clone());
        let parsed = serde_path_to_error::deserialize(&value);
        // The value may contain keys that are not strings, and numbers that are not finite. JSON has them as strings.
        parsed.or_else(|error| codec::from_json(&value).map_err(|_| error)).map_err(|error| {
            let place = self.namespace.join(".");
            StoreError::Invalid(format!("item `{}` of namespace `{place}` does not fit its type: {error}", self.key))
        })
    }
}

impl Search {
    /// Creates a search for the items in namespaces that start with these labels. By default, the search returns at
    /// most 10 items. To change this number, call [`limit`](Self::limit).
    ///
    /// A search without labels includes all namespaces except `["hier", "tools"]`, in which agents store the
    /// descriptions of tools.
    pub fn below(prefix: impl Labels) -> Self {
        Self { prefix: labels(prefix), query: None, filter: Map::new(), limit: ITEMS, offset: 0, refresh: None }
    }

    /// Sorts the items by their similarity to this text, the most similar item first. Needs a store with an index
    /// ([`StoreOptions::index`](super::StoreOptions::index)).
    pub fn near(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Selects the items in which the field `field` has the value `wanted`. Instead of a value, `wanted` can be an
    /// object of operators, such as `json!({ "$gte": 3 })`. The docs of the field `filter` of [`Search`] describe the
    /// rules.
    pub fn filter(mut self, field: impl Into<String>, wanted: impl Into<Value>) -> Self {
        self.filter.insert(field.into(), wanted.into());
        self
    }

    /// Sets the maximum number of items. Defaults to 10.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Skips this number of results at the beginning.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }
}

impl Namespaces {
    /// Creates a query for the namespaces that start with these labels. `*` matches any label. By default, the query
    /// returns at most 100 namespaces. To change this number, call [`limit`](Self::limit).
    pub fn below(prefix: impl Labels) -> Self {
        Self { prefix: labels(prefix), suffix: Vec::new(), max_depth: None, limit: NAMESPACES, offset: 0 }
    }

    /// Selects the namespaces that end with these labels. `*` matches any label.
    pub fn ending(mut self, suffix: impl Labels) -> Self {
        self.suffix = labels(suffix);
        self
    }

    /// Shortens each namespace to at most this number of labels, and removes duplicates. The number must not be 0.
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = Some(depth);
        self
    }

    /// Sets the maximum number of namespaces. Defaults to 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Skips this number of results at the beginning.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }
}
