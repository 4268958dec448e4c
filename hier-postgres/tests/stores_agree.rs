//! All stores give the same answers to random operations.

mod kit;

use hier_core::async_trait;
use hier_core::store::{
    Embedder, Index, Item, MemoryStore, Namespaces, Op, OpResult, Search, Store, StoreError, StoreOptions,
};
use hier_sqlite::{Sqlite, SqliteStore};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

/// Counts letters.
struct Letters;

#[async_trait]
impl Embedder for Letters {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        let count = |text: &String, letter: u8| text.bytes().filter(|byte| *byte == letter).count();
        let small = |count: usize| f32::from(u16::try_from(count).unwrap_or(u16::MAX));
        let vectors = texts.iter().map(|text| b"abc\0".iter().map(|letter| small(count(text, *letter))).collect());
        Ok(vectors.collect())
    }
}

fn options() -> StoreOptions {
    StoreOptions::default().index(Letters, ["text", "list[*]"]).expect("paths")
}

/// Few of them, so that they meet.
fn namespace() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(select(&["a", "b", "a'", "a/", "a\\0", "ä", "%"][..]).prop_map(str::to_owned), 1..4)
}

fn key() -> impl Strategy<Value = String> {
    select(&["k", "", "\0", "k\0", "K", "';--", "a.b"][..]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Option<serde_json::Map<String, Value>>> {
    let fields = ("[abc\0]{0,6}", any::<i8>(), any::<f64>(), proptest::collection::vec("[abc]{0,3}", 0..3));
    let value = fields.prop_map(|(text, small, float, list)| {
        let n = match small {
            100.. => json!(u64::MAX),
            90..100 => json!(i64::MIN),
            80..90 => json!((1_u64 << 53) + 1),
            70..80 => json!(-0.0),
            60..70 => json!(" 3 "),
            small => json!(small % 4),
        };
        json!({ "text": text, "n": n, "f": float, "list": list }).as_object().cloned()
    });
    prop_oneof![4 => value, 1 => Just(None)]
}

fn filter() -> impl Strategy<Value = serde_json::Map<String, Value>> {
    let one = prop_oneof![
        (-3..4_i8).prop_map(|n| json!({ "n": n })),
        (-3..4_i8).prop_map(|n| json!({ "n": { "$gte": n } })),
        (-3..4_i8).prop_map(|n| json!({ "n": { "$ne": n }, "f": { "$lt": 0 } })),
        Just(json!({ "list": [] })),
        Just(json!({ "text": { "$unknown": 1 } })),
        Just(json!({})),
        Just(json!({})),
    ];
    one.prop_map(|filter| filter.as_object().cloned().unwrap_or_default())
}

fn search() -> impl Strategy<Value = Op> {
    let prefix = prop_oneof![Just(Vec::new()), namespace()];
    let query = prop_oneof![2 => Just(None), 1 => "[abc]{0,4}".prop_map(Some)];
    (prefix, query, filter(), 0..6_usize, 0..4_usize).prop_map(|(prefix, query, filter, limit, offset)| {
        Op::Search(Search { prefix, query, filter, limit, offset, refresh: None })
    })
}

fn namespaces() -> impl Strategy<Value = Op> {
    let pattern = || proptest::collection::vec(select(&["a", "b", "*", "%"][..]).prop_map(str::to_owned), 0..3);
    (pattern(), pattern(), proptest::option::of(1..3_usize), 0..9_usize, 0..3_usize).prop_map(
        |(prefix, suffix, max_depth, limit, offset)| {
            Op::Namespaces(Namespaces { prefix, suffix, max_depth, limit, offset })
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let index = prop_oneof![
        4 => Just(Index::Configured),
        1 => Just(Index::None),
        1 => Just(Index::Fields(vec!["{text,list[0]}".to_owned()])),
    ];
    let lives = prop_oneof![4 => Just(None), 1 => Just(Some(std::time::Duration::ZERO))];
    let put = (namespace(), key(), value(), index, lives).prop_map(|(namespace, key, value, index, time_to_live)| {
        Op::Put { namespace, key, value, index, time_to_live }
    });
    let get = (namespace(), key()).prop_map(|(namespace, key)| Op::Get { namespace, key, refresh: None });
    prop_oneof![5 => put, 2 => get, 2 => search(), 1 => namespaces()]
}

fn batches() -> impl Strategy<Value = Vec<Vec<Op>>> {
    proptest::collection::vec(proptest::collection::vec(op(), 0..8), 1..10)
}

/// Without the times, which differ.
fn timeless(results: Result<Vec<OpResult>, StoreError>) -> Result<Vec<OpResult>, String> {
    let same = |item: Item| Item { created_at: std::time::UNIX_EPOCH, updated_at: std::time::UNIX_EPOCH, ..item };
    let result = |result| match result {
        OpResult::Item(item) => OpResult::Item(item.map(same)),
        OpResult::Items(items) => OpResult::Items(items.into_iter().map(same).collect()),
        other => other,
    };
    results.map(|results| results.into_iter().map(result).collect()).map_err(|error| error.to_string())
}

async fn agree(store: &impl Store, batches: Vec<Vec<Op>>) {
    let memory = MemoryStore::new(options());
    for ops in batches {
        let (wanted, found) = (memory.batch(ops.clone()).await, store.batch(ops.clone()).await);
        assert_eq!(timeless(found), timeless(wanted), "{ops:?}");
    }
    let everything = vec![Op::Search(Search::below([""; 0]).limit(usize::MAX))];
    let (wanted, found) = (memory.batch(everything.clone()).await, store.batch(everything).await);
    assert_eq!(timeless(found), timeless(wanted));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_agrees_with_memory(batches in batches()) {
        let folder = tempfile::tempdir().expect("a folder");
        runtime().block_on(async {
            let path = folder.path().join("store.db");
            let store = SqliteStore::open_with(path, Sqlite::options(), options()).await.expect("a file");
            agree(&store, batches).await;
        });
    }
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn postgres_agrees_with_memory() {
    let url = kit::server::server();
    let number = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let run = proptest::test_runner::TestRunner::new(config).run(&batches(), |batches| {
        number.set(number.get() + 1);
        let postgres = hier_postgres::Postgres::options().schema(format!("agree_{}", number.get()));
        runtime().block_on(async {
            let store = hier_postgres::PostgresStore::connect_with(&url, postgres, options()).await.expect("a server");
            store.migrate().await.expect("tables");
            agree(&store, batches).await;
        });
        Ok(())
    });
    run.expect("the same answers");
}
