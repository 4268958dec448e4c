//! Agents with many tools whose graph has a store with an index: they search tools by meaning.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, ToolSearch};
use hier_core::store::{Embedder, MemoryStore, StoreError, StoreOptions};
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::searching::{Crm, Desk, SHOP, answers, desk, search};
use crate::support::offered;

/// An embedder that knows which words mean the same.
#[derive(Clone, Default)]
struct Meanings {
    embedded: Arc<Mutex<Vec<String>>>,
    is_closed: Arc<AtomicBool>,
    /// The number of additional dimensions.
    more: usize,
}

const MEANINGS: [&[&str]; 3] = [&["money", "reimburse"], &["parcel", "courier"], &["customer", "client"]];

#[async_trait]
impl Embedder for Meanings {
    async fn embed(&self, texts: Vec<String>) -> std::result::Result<Vec<Vec<f32>>, StoreError> {
        self.embedded.lock().unwrap().extend(texts.iter().cloned());
        texts.iter().map(|text| self.vector(text)).collect()
    }

    async fn embed_query(&self, text: String) -> std::result::Result<Vec<f32>, StoreError> {
        self.vector(&text)
    }
}

impl Meanings {
    fn vector(&self, text: &str) -> std::result::Result<Vec<f32>, StoreError> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(StoreError::Embedding("it is closed".to_owned()));
        }
        let weight = |words: &[&str]| f32::from(u8::from(words.iter().any(|word| text.contains(word))));
        let own = MEANINGS.iter().map(|words| weight(words));
        Ok(own.chain([0.1]).chain(std::iter::repeat_n(0.0, self.more)).collect())
    }

    /// Returns the embedded texts since the last call, sorted.
    fn take(&self) -> Vec<String> {
        let mut texts = std::mem::take(&mut *self.embedded.lock().unwrap());
        texts.sort();
        texts
    }

    fn store(&self) -> MemoryStore {
        MemoryStore::new(StoreOptions::default().index(self.clone(), ["other"]).unwrap())
    }
}

const TEXTS: [&str; 3] = [
    "erase: Deletes a customer.\norder",
    "refund: Gives money back.\nNeeds an order.\norder",
    "ship: Sends a parcel.\norder",
];

/// Runs an agent that searches, and returns what it found.
async fn searched(store: Option<&MemoryStore>, crm: &Crm, query: &str) -> Result<Vec<String>> {
    let model = ScriptedModel::new([search(query), Message::assistant("Done.")]);
    let agent = AgentBuilder::<BaseState, Desk>::new("support").toolset(|desk: &Desk| &desk.crm);
    let mut agent = agent.search(ToolSearch::new().above(0).results(1)).compile()?;
    if let Some(store) = store {
        agent = agent.store(store.clone());
    }
    let desk = Desk { crm: crm.clone(), ..desk(&model, &[]) };
    let out = agent.invoke(Message::user("Go.")).context(desk).await?;
    assert_eq!(offered(&model, 1)[1..], out.state().found_tools.names().collect::<Vec<_>>());
    assert_eq!(answers(out.state()).len(), 1);
    Ok(offered(&model, 1)[1..].to_vec())
}

#[tokio::test]
async fn tools_are_found_by_meaning_and_embedded_once() -> Result<()> {
    let (meanings, crm) = (Meanings::default(), Crm::new(&SHOP));
    let store = meanings.store();
    assert_eq!(searched(Some(&store), &crm, "reimburse somebody").await?, ["refund"]);
    assert_eq!(meanings.take(), TEXTS);
    assert_eq!(searched(Some(&store), &crm, "call couriers").await?, ["ship"]);
    assert_eq!(searched(Some(&store), &crm, "forget a client").await?, ["erase"]);
    assert_eq!(searched(Some(&store), &crm, "`ship`, not a client").await?, ["ship"]);
    assert!(meanings.take().is_empty(), "each text is embedded once");
    // No word is equal.
    assert!(searched(None, &crm, "call couriers").await?.is_empty());
    assert!(searched(Some(&MemoryStore::default()), &crm, "call couriers").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn changed_toolset_embeds_only_what_changed() -> Result<()> {
    let (meanings, crm) = (Meanings::default(), Crm::new(&SHOP));
    let store = meanings.store();
    searched(Some(&store), &crm, "reimburse").await?;
    meanings.take();
    let other = Crm::new(&[SHOP[0], ("ship", "Sends letters."), ("notify", "Writes to a customer.")]);
    assert_eq!(searched(Some(&store), &other, "courier or client").await?, ["notify"]);
    assert_eq!(meanings.take(), ["notify: Writes to a customer.\norder", "ship: Sends letters.\norder"]);
    // The tools of the other set are not found.
    assert_eq!(searched(Some(&store), &crm, "inform a client").await?, ["erase"]);
    assert!(meanings.take().is_empty());
    Ok(())
}

/// The vectors of another embedder cannot be compared.
#[tokio::test]
async fn another_embedder_embeds_again() -> Result<()> {
    let crm = Crm::new(&SHOP);
    let (first, second) = (Meanings::default(), Meanings { more: 2, ..Meanings::default() });
    let shared = Shared::new([&first, &second]);
    let store = MemoryStore::new(StoreOptions::default().index(shared.clone(), ["other"])?);
    searched(Some(&store), &crm, "reimburse").await?;
    shared.second.store(true, Ordering::Relaxed);
    assert_eq!(searched(Some(&store), &crm, "courier").await?, ["ship"]);
    assert_eq!(second.take(), TEXTS);
    Ok(())
}

/// An embedder that is replaced by another one.
#[derive(Clone)]
struct Shared {
    both: [Meanings; 2],
    second: Arc<AtomicBool>,
}

impl Shared {
    fn new(both: [&Meanings; 2]) -> Self {
        Self { both: both.map(Clone::clone), second: Arc::default() }
    }
}

#[async_trait]
impl Embedder for Shared {
    async fn embed(&self, texts: Vec<String>) -> std::result::Result<Vec<Vec<f32>>, StoreError> {
        self.both[usize::from(self.second.load(Ordering::Relaxed))].embed(texts).await
    }

    async fn embed_query(&self, text: String) -> std::result::Result<Vec<f32>, StoreError> {
        self.both[usize::from(self.second.load(Ordering::Relaxed))].embed_query(text).await
    }
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        self.0.fetch_add(usize::from(*event.metadata().level() == tracing::Level::WARN), Ordering::Relaxed);
    }
}

#[tokio::test]
async fn failing_embedder_leaves_the_search_to_words() -> Result<()> {
    let (meanings, crm) = (Meanings::default(), Crm::new(&SHOP));
    let store = meanings.store();
    meanings.is_closed.store(true, Ordering::Relaxed);
    let warnings = Warnings::default();
    crate::support::log_on_all_threads();
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(warnings.clone()));
    assert_eq!(searched(Some(&store), &crm, "send a parcel").await?, ["ship"]);
    drop(guard);
    assert_eq!(warnings.0.load(Ordering::Relaxed), 1);
    // Later it works again.
    meanings.is_closed.store(false, Ordering::Relaxed);
    assert_eq!(searched(Some(&store), &crm, "call a courier").await?, ["ship"]);
    Ok(())
}
