//! The store in memory keeps the contract, and the suite notices stores that do not.

use futures_util::FutureExt;
use hier_core::prelude::*;
use hier_core::store::{Embedder, Index, MemoryStore, Op, OpResult, Search, Store, StoreError, StoreExt, StoreOptions};
use hier_core::{Result, async_trait};
use hier_testkit::store as suite;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

#[tokio::test]
async fn store_in_memory_keeps_the_contract() {
    let report = suite::run_suite(async |options| Ok(MemoryStore::new(options))).await;
    assert!(report.passed(), "{report}");
    assert!(report.results.len() > 50, "{report}");
}

/// Loses every third put.
struct Forgetful(MemoryStore, std::sync::atomic::AtomicUsize);

#[async_trait]
impl Store for Forgetful {
    async fn batch(&self, mut ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
        for op in &mut ops {
            if let Op::Put { value, .. } = op
                && self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 == 2
            {
                *value = None;
            }
        }
        self.0.batch(ops).await
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        self.0.sweep().await
    }
}

#[tokio::test]
async fn suite_detects_a_forgetful_store() {
    let new = async |options| Ok(Forgetful(MemoryStore::new(options), 0.into()));
    let report = suite::run_suite(new).await;
    assert!(!report.passed());
    let failed = report.results.iter().filter(|(_, result)| result.is_err()).count();
    assert!(failed > 10, "{report}");
}

/// Any JSON, a few levels deep, also with names that look like operators.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[$a-c0-9.\0]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[$a-c]{0,3}", inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn finds(store: &MemoryStore, filter: Value) -> Result<bool, StoreError> {
    let search = store.search(Search::below(["a"]).filter("f", filter));
    Ok(!search.now_or_never().expect("memory waits for nothing")?.is_empty())
}

fn keep(value: &Value) -> MemoryStore {
    let store = MemoryStore::default();
    store.put(["a"], "k", &json!({ "f": value })).now_or_never().expect("memory waits for nothing").expect("a put");
    store
}

/// Without the fields that a number drawn for each leaves out.
fn part_of(value: &Value, draw: &mut impl FnMut() -> bool) -> Value {
    match value {
        Value::Object(fields) => {
            let part = |(name, field): (&String, &Value)| draw().then(|| (name.clone(), part_of(field, draw)));
            fields.iter().filter_map(part).collect()
        }
        Value::Array(items) => items.iter().map(|item| part_of(item, draw)).collect(),
        plain => plain.clone(),
    }
}

fn has_operators(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, field)| name.starts_with('$') || has_operators(field)),
        Value::Array(items) => items.iter().any(has_operators),
        _ => false,
    }
}

proptest! {
    #[test]
    fn every_value_matches_itself_and_its_parts(value in json_value(), mut bits in any::<u64>()) {
        let store = keep(&value);
        let (equal, differs) = (finds(&store, json!({ "$eq": value }))?, finds(&store, json!({ "$ne": value }))?);
        prop_assert_eq!((equal, differs), (true, false));
        let part = part_of(&value, &mut || { bits = bits.rotate_left(1); bits & 1 == 1 });
        if !has_operators(&part) {
            prop_assert!(finds(&store, part)?);
        }
    }

    #[test]
    fn every_filter_is_applied_or_refused(value in json_value(), filter in json_value()) {
        let store = keep(&value);
        match finds(&store, filter) {
            Ok(_) | Err(StoreError::Invalid(_)) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn numbers_are_ordered_as_numbers(a in any::<i64>(), b in any::<i64>(), x in -1e9..1e9_f64, y in -1e9..1e9_f64) {
        for (a, b, order) in [(json!(a), json!(b), a.cmp(&b)), (json!(x), json!(y), x.total_cmp(&y))] {
            let store = keep(&a);
            prop_assert_eq!(finds(&store, json!({ "$gt": b }))?, order.is_gt());
            prop_assert_eq!(finds(&store, json!({ "$gte": b }))?, order.is_ge());
            prop_assert_eq!(finds(&store, json!({ "$lt": b }))?, order.is_lt());
            prop_assert_eq!(finds(&store, json!({ "$lte": b }))?, order.is_le());
        }
    }

    #[test]
    fn every_path_is_followed_or_refused(value in json_value(), path in r"[a-c$*.,\[\]{}0-9-]{0,10}") {
        let options = StoreOptions::default().index(Lengths, ["$"]).expect("a path");
        let store = MemoryStore::new(options);
        let value = Some(json!({ "a": value }).as_object().cloned().expect("an object"));
        let index = Index::Fields(vec![path]);
        let put = Op::Put { namespace: vec!["a".to_owned()], key: "k".to_owned(), value, index, time_to_live: None };
        match store.batch(vec![put]).now_or_never().expect("memory waits for nothing") {
            Ok(_) | Err(StoreError::Invalid(_)) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

struct Lengths;

#[async_trait]
impl Embedder for Lengths {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        let vectors = texts.iter().map(|text| vec![1.0, f32::from(u16::try_from(text.len()).unwrap_or(u16::MAX))]);
        Ok(vectors.collect())
    }
}

/// Answers with something wrong.
struct Wrong(WrongAnswer);

/// Vectors for this many texts.
type WrongAnswer = fn(usize) -> Vec<Vec<f32>>;

#[async_trait]
impl Embedder for Wrong {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        Ok((self.0)(texts.len()))
    }
}

#[tokio::test]
async fn invalid_vectors_are_refused() {
    let wrong: [WrongAnswer; 4] = [
        |_| Vec::new(),
        |count| vec![vec![1.0]; count + 1],
        |count| vec![Vec::new(); count],
        |count| vec![vec![1.0, f32::NAN]; count],
    ];
    for answer in wrong {
        let options = StoreOptions::default().index(Wrong(answer), ["$"]).expect("a path");
        let store = MemoryStore::new(options);
        let put = store.put(["a"], "k", &json!({})).await;
        assert!(matches!(put, Err(StoreError::Embedding(_))), "{put:?}");
        assert_eq!(store.get(["a"], "k").await.expect("a read"), None);
        let search = store.search(Search::below(["a"]).near("x")).await;
        assert!(matches!(search, Err(StoreError::Embedding(_))), "{search:?}");
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Greeting {
    user: String,
    said: String,
}

graph! {
    Greet<Greeting> = Graph { nodes: [greet], edges: [START >> greet >> END] }
}

/// Counts visits across threads.
async fn greet(state: &Greeting, run: &Run) -> Result<GreetingUpdate> {
    let store = run.store()?;
    let known = store.get(["users", &state.user], "visits").await?;
    let visits = known.and_then(|item| item.value["count"].as_u64()).unwrap_or(0) + 1;
    store.put(["users", &state.user], "visits", &json!({ "count": visits })).await?;
    Ok(Greeting::update().said(format!("hello for the {visits}. time")))
}

#[tokio::test]
async fn nodes_remember_across_threads() -> Result<()> {
    let graph = Greet::compile().store(MemoryStore::default());
    for visit in 1..=3 {
        let out = graph.invoke(Greeting::update().user("ada")).await?;
        assert_eq!(out.state().said, format!("hello for the {visit}. time"));
    }
    let out = graph.invoke(Greeting::update().user("bob")).await?;
    assert_eq!(out.state().said, "hello for the 1. time");
    let without = Greet::compile().invoke(Greeting::update().user("ada")).await;
    assert!(without.expect_err("no store").to_string().contains("has no store"));
    Ok(())
}
