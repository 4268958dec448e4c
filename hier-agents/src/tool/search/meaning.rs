//! The search for tools by meaning, in the store of the graph.
//!
//! The store keeps the text of each tool under its hash, with its vector. All agents and runs share these items. A text
//! is embedded when it is first searched, and anew after [`KEPT`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hier_checkpoint::checkpoint::codec;
use hier_checkpoint::store::{Index, Item, Op, Search, Store, StoreError, StoreExt, TOOL_TEXTS};
use serde_json::Value;

use crate::model::ToolSpec;

/// The time for which a text is kept, so that texts of removed tools do not accumulate.
const KEPT: Duration = Duration::from_hours(30 * 24);
/// The maximum length of a text in characters. Embedding models refuse longer texts.
const LONGEST: usize = 4_000;
/// The field of an item that has the text.
const TEXT: &str = "text";

/// Returns the indices of the tools, the nearest to the query first.
pub(super) async fn ranked(store: &dyn Store, tools: &[&ToolSpec], query: &str) -> Result<Vec<usize>, StoreError> {
    let texts: Vec<String> = tools.iter().map(|tool| text(tool)).collect();
    let keys = texts.iter().map(|text| key(text)).collect::<Result<Vec<_>, _>>()?;
    let mut found = nearest(store, query).await?;
    // An item without a score has a vector of another embedder.
    let known: HashSet<&String> = found.iter().filter(|item| item.score.is_some()).map(|item| &item.key).collect();
    let new: Vec<Op> =
        keys.iter().zip(&texts).filter(|(key, _)| !known.contains(key)).map(|(key, text)| put(key, text)).collect();
    if !new.is_empty() {
        store.batch(new).await?;
        found = nearest(store, query).await?;
    }
    let places: HashMap<&String, usize> = keys.iter().enumerate().map(|(place, key)| (key, place)).collect();
    Ok(found.iter().filter_map(|item| places.get(&item.key).copied()).collect())
}

/// Returns the texts of all tools in the store, including those of other agents.
async fn nearest(store: &dyn Store, query: &str) -> Result<Vec<Item>, StoreError> {
    let search = Search::below(TOOL_TEXTS).near(query).limit(usize::MAX);
    store.search(Search { refresh: Some(false), ..search }).await
}

fn put(key: &str, text: &str) -> Op {
    Op::Put {
        namespace: TOOL_TEXTS.map(str::to_owned).into(),
        key: key.to_owned(),
        value: Some([(TEXT.to_owned(), Value::from(text))].into_iter().collect()),
        index: Index::Fields(vec![TEXT.to_owned()]),
        time_to_live: Some(KEPT),
    }
}

fn key(text: &str) -> Result<String, StoreError> {
    let hash = codec::hash(text)
        .map_err(|error| StoreError::Invalid(format!("cannot hash the description of a tool: {error}")))?;
    Ok(format!("{hash:032x}"))
}

/// Returns the text by which a tool is found: its name, its description and the names of its arguments.
fn text(tool: &ToolSpec) -> String {
    let arguments = tool.parameters.get("properties").and_then(Value::as_object);
    let arguments = arguments.into_iter().flatten().map(|(name, _)| format!("\n{name}"));
    let text = arguments.fold(format!("{}: {}", tool.name, tool.description), |text, name| text + &name);
    text.chars().take(LONGEST).collect()
}
