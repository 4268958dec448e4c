//! The logic that all stores share, for authors of stores. It checks operations, computes vectors, and filters, sorts
//! and pages results.
//!
//! A store converts a batch of operations into a [`Plan`]. The store then carries out the reads of the plan, and after
//! them the writes.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::filter::Filter;
use super::index::cosine;
use super::rules::{TOOL_TEXTS, check_key, check_labels, check_namespace, check_value, invalid};
use super::{Index, Namespaces, Op, OpResult, Search, StoreError, StoreOptions};

/// A checked batch of operations. The plan contains the vectors of the texts that searches compare.
#[derive(Debug, Default)]
pub struct Plan {
    /// The reads, each with the index of its result in the results of the batch.
    pub reads: Vec<(usize, Read)>,
    /// The writes, at most one per key. The store carries them out after all reads.
    pub writes: Vec<Write>,
    operations: usize,
}

/// A read of a plan.
#[derive(Debug)]
pub enum Read {
    /// Reads one item. The result is [`OpResult::Item`].
    Item {
        /// The namespace.
        namespace: Vec<String>,
        /// The key in the namespace.
        key: String,
        /// True to restart the item's time to live.
        refresh: bool,
    },
    /// Searches items. The result is [`OpResult::Items`].
    Items(Finder),
    /// Lists namespaces with [`list_namespaces`]. The result is [`OpResult::Namespaces`].
    Namespaces(Namespaces),
}

/// A write of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The namespace.
    pub namespace: Vec<String>,
    /// The key in the namespace.
    pub key: String,
    /// The item to store. `None` deletes the item.
    pub put: Option<Put>,
}

/// An item to store.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// The value.
    pub value: Map<String, Value>,
    /// The vectors of the texts in the indexed fields.
    pub vectors: Vec<Vec<f32>>,
    /// The time after which the item expires. `None` for never.
    pub time_to_live: Option<Duration>,
}

impl Plan {
    /// Creates the plan for a batch.
    ///
    /// # Errors
    ///
    /// Fails if one of the operations is invalid, or if a text cannot be converted to a vector. The store must then
    /// carry out none of the operations.
    pub async fn of(options: &StoreOptions, ops: Vec<Op>) -> Result<Self, StoreError> {
        let mut draft = PlanDraft::default();
        draft.plan.operations = ops.len();
        for (number, op) in ops.into_iter().enumerate() {
            match op {
                Op::Put { namespace, key, value, index, time_to_live } => {
                    check_namespace(&namespace)?;
                    check_key(&key)?;
                    let time_to_live = time_to_live.or(options.time_to_live);
                    let texts = value.as_ref().map(|value| texts(options, value, &index)).transpose()?;
                    let put = value.map(|value| Put { value, vectors: Vec::new(), time_to_live });
                    draft.write(Write { namespace, key, put }, texts.unwrap_or_default());
                }
                read => draft.plan.reads.push((number, Read::of(options, read).await?)),
            }
        }
        draft.finish(options).await
    }

    /// Returns the error with the item whose text caused it. `counts` has the number of texts of each write.
    fn named(&self, error: StoreError, counts: &[usize]) -> StoreError {
        let StoreError::EmbeddingOf { place, reason } = error else { return error };
        let mut end = 0;
        let item = self.writes.iter().zip(counts).find(|(_, count)| {
            end += **count;
            place < end
        });
        match item {
            None => StoreError::Embedding(reason),
            Some((Write { namespace, key, .. }, _)) => {
                StoreError::Embedding(format!("item `{key}` in namespace `{}`: {reason}", namespace.join("/")))
            }
        }
    }

    /// Returns a result for each operation. The results of reads are placeholders, which the store replaces.
    pub fn results(&self) -> Vec<OpResult> {
        vec![OpResult::Done; self.operations]
    }
}

impl Read {
    async fn of(options: &StoreOptions, op: Op) -> Result<Self, StoreError> {
        match op {
            Op::Get { namespace, key, refresh } => {
                check_namespace(&namespace)?;
                check_key(&key)?;
                Ok(Self::Item { namespace, key, refresh: refresh.unwrap_or(options.refresh_on_read) })
            }
            Op::Search(search) => Ok(Self::Items(Finder::of(options, search).await?)),
            Op::Namespaces(Namespaces { max_depth: Some(0), .. }) => invalid("`max_depth` is 0: set it to at least 1"),
            Op::Namespaces(query) => Ok(Self::Namespaces(query)),
            Op::Put { .. } => invalid("a put reads nothing"),
        }
    }
}

/// Returns the texts of a value that get vectors. Fails if the value cannot be stored.
fn texts(options: &StoreOptions, value: &Map<String, Value>, index: &Index) -> Result<Vec<String>, StoreError> {
    check_value(value)?;
    options.indexing.as_ref().map_or_else(|| Ok(Vec::new()), |indexing| indexing.texts(value, index))
}

/// A plan without vectors.
#[derive(Default)]
struct PlanDraft {
    plan: Plan,
    /// The texts of each write that get vectors.
    texts: Vec<Vec<String>>,
    places: HashMap<(Vec<String>, String), usize>,
}

impl PlanDraft {
    /// Adds a write. A later write of the same key replaces an earlier one in its place.
    fn write(&mut self, write: Write, texts: Vec<String>) {
        let id = (write.namespace.clone(), write.key.clone());
        let place = *self.places.entry(id).or_insert(self.plan.writes.len());
        if place < self.plan.writes.len() {
            self.plan.writes[place] = write;
            self.texts[place] = texts;
        } else {
            self.plan.writes.push(write);
            self.texts.push(texts);
        }
    }

    async fn finish(self, options: &StoreOptions) -> Result<Plan, StoreError> {
        let Self { mut plan, texts, .. } = self;
        let Some(indexing) = &options.indexing else { return Ok(plan) };
        let counts: Vec<usize> = texts.iter().map(Vec::len).collect();
        let vectors = indexing.embed(texts.into_iter().flatten().collect()).await;
        let mut vectors = vectors.map_err(|error| plan.named(error, &counts))?.into_iter();
        for (write, count) in plan.writes.iter_mut().zip(counts) {
            let own = vectors.by_ref().take(count).collect();
            if let Some(put) = &mut write.put {
                put.vectors = own;
            }
        }
        Ok(plan)
    }
}

/// A search. The store reads all items whose namespace starts with [`prefix`](Self::prefix). A [`Picking`] then selects
/// the results from these items.
#[derive(Debug)]
pub struct Finder {
    /// The labels with which the namespaces of the items start.
    pub prefix: Vec<String>,
    /// True to restart the time to live of the found items.
    pub refresh: bool,
    filter: Filter,
    /// The vector of the query.
    near: Option<Vec<f32>>,
    limit: usize,
    offset: usize,
}

impl Finder {
    async fn of(options: &StoreOptions, search: Search) -> Result<Self, StoreError> {
        let Search { prefix, query, filter, limit, offset, refresh } = search;
        check_labels(&prefix)?;
        let filter = Filter::of(&filter)?;
        let near = match (query.filter(|query| !query.trim().is_empty()), &options.indexing) {
            (None, _) => None,
            (Some(query), Some(indexing)) => Some(indexing.embed_query(&query).await?),
            (Some(_), None) => {
                return invalid("this store cannot search by meaning: configure an index with `StoreOptions::index`");
            }
        };
        Ok(Self { prefix, refresh: refresh.unwrap_or(options.refresh_on_read), filter, near, limit, offset })
    }

    /// Returns true if the search needs the vectors of items.
    pub fn wants_vectors(&self) -> bool {
        self.near.is_some()
    }

    /// Returns true if the search includes this namespace. The namespace must start with [`prefix`](Self::prefix).
    ///
    /// A search with an empty prefix leaves out the namespace in which agents store descriptions of tools. Untrusted
    /// servers may have written these descriptions.
    pub fn includes(&self, namespace: &[String]) -> bool {
        !self.prefix.is_empty() || namespace != TOOL_TEXTS
    }

    /// Returns the number of items after which the search can stop, or `None` if it must see all items. A search with a
    /// query or a filter must see all items.
    pub fn enough(&self) -> Option<usize> {
        (self.near.is_none() && self.filter.is_empty()).then(|| self.offset.saturating_add(self.limit))
    }

    /// Starts the selection of results. The caller then passes the items to [`Picking::rank`]: all items whose
    /// namespace starts with [`prefix`](Self::prefix) and for whose namespace [`includes`](Self::includes) returns
    /// true. The items must be grouped by namespace. The namespaces, and the items in a namespace, must have the order
    /// of their creation.
    pub fn picking<T>(&self) -> Picking<'_, T> {
        Picking { finder: self, most: self.offset.saturating_add(self.limit), scored: Vec::new(), plain: Vec::new() }
    }
}

/// Selects the results of a search. For each item, call [`rank`](Self::rank). If it returns a rank, call
/// [`pick`](Self::pick) with this rank.
#[derive(Debug)]
pub struct Picking<'a, T> {
    finder: &'a Finder,
    most: usize,
    /// Items with a vector.
    scored: Vec<(f64, T)>,
    /// Items without a vector, in order.
    plain: Vec<T>,
}

/// The rank of an item in a search. [`Picking::rank`] returns it for [`Picking::pick`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank(Option<f64>);

impl<T> Picking<'_, T> {
    /// Returns the rank of an item with this value and these vectors. Returns `None` if the item cannot be a result,
    /// because it does not match the filter or because enough results were picked.
    pub fn rank(&self, value: &Map<String, Value>, vectors: &[Vec<f32>]) -> Option<Rank> {
        if self.is_full() || !self.finder.filter.matches(value) {
            return None;
        }
        let near = self.finder.near.as_deref();
        // The most similar text of the item counts.
        let score = near.and_then(|near| vectors.iter().filter_map(|own| cosine(near, own)).max_by(f64::total_cmp));
        (score.is_some() || self.plain.len() < self.most).then_some(Rank(score))
    }

    /// Adds an item with the rank that [`rank`](Self::rank) has returned for it.
    pub fn pick(&mut self, rank: Rank, item: T) {
        match rank {
            Rank(Some(score)) => self.scored.push((score, item)),
            Rank(None) => self.plain.push(item),
        }
        if self.scored.len() / 2 > self.most {
            self.drop_the_farthest();
        }
    }

    /// Returns true if no further item can be a result.
    pub fn is_full(&self) -> bool {
        self.most == 0 || (self.finder.near.is_none() && self.plain.len() >= self.most)
    }

    /// Returns the results within the offset and the limit of the search, each with its score. The most similar item
    /// comes first. Items without a vector come last, in the order in which they were added, with the score `None`.
    pub fn finish(mut self) -> Vec<(T, Option<f64>)> {
        self.drop_the_farthest();
        let scored = self.scored.into_iter().map(|(score, item)| (item, Some(score)));
        let plain = self.plain.into_iter().map(|item| (item, None));
        scored.chain(plain).skip(self.finder.offset).take(self.finder.limit).collect()
    }

    fn drop_the_farthest(&mut self) {
        self.scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        self.scored.truncate(self.most);
    }
}

/// Returns the namespaces that match a query, sorted by their labels. `all` must contain all namespaces that have
/// items.
pub fn list_namespaces(query: &Namespaces, all: impl IntoIterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let fits = |labels: &[String]| {
        let fit = |(pattern, label): (&String, &String)| pattern == "*" || pattern == label;
        labels.len() >= query.prefix.len().max(query.suffix.len())
            && query.prefix.iter().zip(labels).all(fit)
            && query.suffix.iter().rev().zip(labels.iter().rev()).all(fit)
    };
    let mut found: Vec<_> = all.into_iter().filter(|labels| fits(labels)).collect();
    if let Some(depth) = query.max_depth {
        for labels in &mut found {
            labels.truncate(depth);
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().skip(query.offset).take(query.limit).collect()
}
