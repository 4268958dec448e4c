//! A channel with another reducer or kind in another version of a program: stored data is read by the rule under
//! which it was written, or refused with the fix. Nothing is lost or changed.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use hier_core::Durability;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::reducer::{Identified, ReduceError};
use hier_core::state::{Builtin, DynState, Schema};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// An item that is identified by another field than `id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Item {
    id: u8,
    key: u8,
}

impl Identified for Item {
    type Id = u8;

    // The key, and not the field called `id`.
    #[allow(clippy::misnamed_getters)]
    fn id(&self) -> &u8 {
        &self.key
    }
}

type Items = Vec<Item>;
type Set = BTreeSet<u8>;
type Map = BTreeMap<u8, String>;

/// Removes the keys of the new items, and puts these in front.
fn newest_first(old: &mut Items, mut new: Items) {
    old.retain(|item| new.iter().all(|other| other.key != item.key));
    new.append(old);
    *old = new;
}

/// Keeps the new items behind each other, and counts them.
fn counted(old: &mut Items, new: Items) {
    for mut item in new {
        item.id = u8::try_from(old.len()).unwrap_or(u8::MAX);
        old.push(item);
    }
}

/// A custom reducer that has the name of a built-in one.
mod named {
    pub(super) fn append(old: &mut super::Items, new: super::Items) {
        super::newest_first(old, new);
    }
}

/// A program of one version: it writes `next` to `log`, and may ask before the step ends.
#[async_trait]
trait Version: Sync {
    /// Returns the name of the custom reducer that its stored parts belong to, if any.
    fn custom(&self) -> Option<&'static str>;
    /// Returns the rule under which its writes are stored.
    fn rule(&self) -> &'static str;
    /// Applies a write to the value.
    fn merge(&self, old: &mut Items, new: Items);
    async fn turn(
        &self,
        saver: &MemorySaver,
        durability: Durability,
        next: Items,
        asks: bool,
    ) -> Result<Items, RunError>;
    async fn answer(&self, saver: &MemorySaver) -> Result<Items, RunError>;
    async fn read(&self, saver: &MemorySaver) -> Result<Items, RunError>;
}

macro_rules! version {
    ($module:ident, $rule:literal, $custom:expr, $merge:expr, $(#[$channel:meta])*) => {
        mod $module {
            use super::*;

            #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
            struct Case {
                next: Items,
                asks: bool,
                $(#[$channel])*
                log: Vec<Item>,
            }

            graph! {
                Review<Case> = Graph {
                    name: "review",
                    nodes: [work, ask],
                    edges: [START >> [work, ask], work >> END, ask >> END],
                }
            }

            async fn work(state: &Case) -> CaseUpdate {
                Case::update().log(state.next.clone())
            }

            async fn ask(state: &Case, run: &Run) -> hier_core::Result<()> {
                if state.asks {
                    let _: String = run.interrupt(&"well?").await?;
                }
                Ok(())
            }

            pub(super) struct Program;

            #[async_trait]
            impl Version for Program {
                fn custom(&self) -> Option<&'static str> {
                    $custom
                }

                fn rule(&self) -> &'static str {
                    $rule
                }

                fn merge(&self, old: &mut Items, new: Items) {
                    let merge: fn(&mut Items, Items) = $merge;
                    merge(old, new);
                }

                async fn turn(
                    &self,
                    saver: &MemorySaver,
                    durability: Durability,
                    next: Items,
                    asks: bool,
                ) -> Result<Items, RunError> {
                    let graph = Review::compile().checkpointer(saver.clone());
                    let input = Case::update().next(next).asks(asks);
                    let outcome = graph.invoke(input).thread("t").durability(durability).await?;
                    Ok(outcome.into_state().log)
                }

                async fn answer(&self, saver: &MemorySaver) -> Result<Items, RunError> {
                    let graph = Review::compile().checkpointer(saver.clone());
                    let outcome = graph.invoke(Command::resume("yes")).thread("t").await?;
                    assert!(outcome.is_finished(), "{outcome:?}");
                    Ok(outcome.into_state().log)
                }

                async fn read(&self, saver: &MemorySaver) -> Result<Items, RunError> {
                    let graph = Review::compile().checkpointer(saver.clone());
                    Ok(graph.state("t").await?.values.log)
                }
            }
        }
    };
}

fn replace(old: &mut Items, new: Items) {
    *old = new;
}

fn extend(old: &mut Items, new: Items) {
    old.extend(new);
}

fn upsert(old: &mut Items, new: Items) {
    hier_core::reducer::builtin::by_id(old, new);
}

version!(plain, "last", None, replace,);
version!(last, "last", None, replace, #[reducer(last)]);
version!(append, "append", None, extend, #[reducer(append)]);
version!(by_id, "by_id", None, upsert, #[reducer(by_id)]);
version!(topic, "append", None, extend, #[channel(topic(accumulate))]);
version!(whole, "with = newest_first", None, newest_first, #[reducer(with = newest_first)]);
version!(delta, "with = newest_first", Some("newest_first"), newest_first, #[reducer(with = newest_first)] #[channel(delta)]);
version!(count, "with = counted", Some("counted"), counted, #[reducer(with = counted)] #[channel(delta)]);
version!(other, "with = named::append", Some("named::append"), newest_first, #[reducer(with = named::append)] #[channel(delta)]);

const VERSIONS: [&dyn Version; 9] = [
    &plain::Program,
    &last::Program,
    &append::Program,
    &by_id::Program,
    &topic::Program,
    &whole::Program,
    &delta::Program,
    &count::Program,
    &other::Program,
];

fn says<T: std::fmt::Debug>(result: Result<T, RunError>, words: &[&str]) {
    let text = result.expect_err("it does not fit").to_string();
    for word in words.iter().chain(&["`log`", "thread `t`"]) {
        assert!(text.contains(word), "no {word} in: {text}");
    }
}

/// The old version reads what the new one has stored, unless the new one has stored parts of a custom reducer.
async fn reads_back(old: &dyn Version, new: &dyn Version, saver: &MemorySaver, expected: &Items) -> bool {
    let case = format!("{} -> {}, and back", old.rule(), new.rule());
    match old.read(saver).await {
        Ok(read) => {
            assert_eq!(read, *expected, "{case}");
            true
        }
        refused => {
            let name = new.custom().unwrap_or_else(|| panic!("{case}: {refused:?}"));
            assert!(new.rule() != old.rule(), "{case}: it has the reducer");
            says(refused, &[name, "restore", "new channel"]);
            assert_eq!(new.read(saver).await.expect("nothing has changed"), *expected, "{case}");
            false
        }
    }
}

/// The old version makes these turns, the new one makes one, and the old one reads what became of it and makes another.
async fn there_and_back(old: &dyn Version, new: &dyn Version, turns: &[Items], durability: Durability) {
    let saver = MemorySaver::new();
    let mut value = Items::new();
    for turn in turns {
        value = old.turn(&saver, durability, turn.clone(), false).await.expect("its own thread");
    }
    let next = turns.last().cloned().unwrap_or_default();
    let case = format!("{} -> {}", old.rule(), new.rule());
    match new.read(&saver).await {
        Ok(read) => assert_eq!(read, value, "{case}"),
        refused => {
            let name = old.custom().unwrap_or_else(|| panic!("{case}: {refused:?}"));
            assert!(new.rule() != old.rule(), "{case}: it has the reducer");
            says(refused, &[name, "restore", "new channel"]);
            says(new.turn(&saver, durability, next.clone(), false).await, &[name, "restore"]);
            assert_eq!(old.read(&saver).await.expect("nothing has changed"), value, "{case}");
            return;
        }
    }
    let mut expected = value.clone();
    new.merge(&mut expected, next.clone());
    let made = new.turn(&saver, durability, next.clone(), false).await.expect("it could be read");
    assert_eq!(made, expected, "{case}");
    assert_eq!(new.read(&saver).await.expect("its own value"), expected, "{case}");
    if !reads_back(old, new, &saver, &expected).await {
        return;
    }
    old.merge(&mut expected, next.clone());
    assert_eq!(old.turn(&saver, durability, next, false).await.expect("its own again"), expected, "{case}, and back");
    assert_eq!(old.read(&saver).await.expect("its own again"), expected, "{case}, and back");
}

/// The old version leaves a step half done, and the new one ends it.
async fn half_done(old: &dyn Version, new: &dyn Version, turns: &[Items], durability: Durability) {
    let saver = MemorySaver::new();
    let mut value = Items::new();
    let (last, turns) = turns.split_last().expect("there is a turn");
    for turn in turns {
        value = old.turn(&saver, durability, turn.clone(), false).await.expect("its own thread");
    }
    old.turn(&saver, durability, last.clone(), true).await.expect("its own thread");
    old.merge(&mut value, last.clone());
    let case = format!("{} -> {}, half done", old.rule(), new.rule());
    match new.answer(&saver).await {
        Ok(made) => {
            assert_eq!(made, value, "{case}");
            reads_back(old, new, &saver, &value).await;
        }
        refused => {
            assert!(old.rule() != "last" && new.rule() != old.rule(), "{case}: {refused:?}");
            says(refused, &[old.rule(), "new channel"]);
            assert_eq!(old.answer(&saver).await.expect("nothing has changed"), value, "{case}");
        }
    }
}

fn holds(law: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(law);
}

fn items() -> impl Strategy<Value = Items> {
    vec((0..4_u8, 0..4_u8).prop_map(|(id, key)| Item { id, key }), 0..4)
}

fn durabilities() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_change_of_reducer_keeps_stored_values(turns in vec(items(), 1..6), durability in durabilities()) {
        holds(async {
            for old in VERSIONS {
                for new in VERSIONS {
                    there_and_back(old, new, &turns, durability).await;
                    half_done(old, new, &turns, durability).await;
                }
            }
        });
    }
}

/// States that are declared at run time, without types.
#[tokio::test]
async fn dynamic_channels_keep_stored_values() {
    fn graph(schema: Schema, saver: &MemorySaver) -> CompiledGraph<DynState> {
        let mut graph = GraphBuilder::dynamic("review", schema);
        graph = graph.node("work", async |_: Task<DynState>| {}).edge(START, "work").edge("work", END);
        graph.compile().expect("it is a graph").checkpointer(saver.clone())
    }
    // As reducers are.
    #[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps)]
    fn own(old: &mut Value, new: Value) -> Result<(), ReduceError> {
        *old = json!([old.take(), new]);
        Ok(())
    }
    // The expired value is cleared: the channel has its initial value.
    fn same(one: &Value, other: &Value) -> bool {
        let is_empty = |log: &Value| log.is_null() || *log == json!([]);
        one == other || is_empty(one) && is_empty(other)
    }
    type Declared = (&'static str, fn() -> Schema);
    let kinds: [Declared; 6] = [
        ("last", || Schema::new().last("log")),
        ("append", || Schema::new().reduced("log", Builtin::Append)),
        ("by_id", || Schema::new().reduced("log", Builtin::ById)),
        ("topic", || Schema::new().topic("log", true)),
        ("ephemeral", || Schema::new().ephemeral("log")),
        ("own", || Schema::new().reduced_with("log", json!([]), own)),
    ];
    for (old, old_schema) in kinds {
        for (new, new_schema) in kinds {
            let saver = MemorySaver::new();
            let (before, after) = (graph(old_schema(), &saver), graph(new_schema(), &saver));
            for n in 0..4 {
                let input = before.update(json!({ "log": [{ "id": n % 3, "n": n }] })).expect("it has the channel");
                let _ = before.invoke(input).thread("t").await.expect("its own thread");
            }
            let value = before.state("t").await.expect("its own thread").values.to_value();
            let read = after.state("t").await.expect("it is JSON").values.to_value();
            assert!(same(&read["log"], &value["log"]), "{old} -> {new}: {read} {value}");
            let input = after.update(json!({ "log": [{ "id": 2, "n": 9 }] })).expect("it has the channel");
            let _ = after.invoke(input).thread("t").await.expect("it could be read");
            let made = after.state("t").await.expect("its own").values.to_value();
            let back = before.state("t").await.expect("it is JSON").values.to_value();
            assert!(same(&back["log"], &made["log"]), "{old} -> {new}, and back: {back} {made}");
        }
    }
}

/// Sets, maps, texts and conversations.
#[tokio::test]
async fn other_growing_types_keep_stored_values() {
    macro_rules! types {
        ($($module:ident: $ty:ty, $rule:ident, $first:expr, $second:expr;)*) => {$({
            mod before {
                use super::*;
                #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
                pub(super) struct Case {
                    #[reducer($rule)]
                    pub(super) log: $ty,
                }
                graph! { pub(super) Review<Case> = Graph { name: "review", nodes: [work], edges: [START >> work >> END] } }
                async fn work() {}
            }
            mod after {
                use super::*;
                #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
                pub(super) struct Case {
                    pub(super) log: $ty,
                }
                graph! { pub(super) Review<Case> = Graph { name: "review", nodes: [work], edges: [START >> work >> END] } }
                async fn work() {}
            }
            let saver = MemorySaver::new();
            let graph = before::Review::compile().checkpointer(saver.clone());
            let first: $ty = $first;
            let second: $ty = $second;
            for write in [first, second] {
                let _ = graph.invoke(before::Case::update().log(write)).thread("t").await.unwrap();
            }
            let log = graph.state("t").await.unwrap().values.log;
            let graph = after::Review::compile().checkpointer(saver.clone());
            assert_eq!(graph.state("t").await.unwrap().values.log, log, stringify!($module));
        })*};
    }
    types! {
        sets: Set, extend, Set::from([1, 2]), Set::from([2, 3]);
        maps: Map, extend, Map::from([(1, "a".into())]), Map::from([(1, "b".into()), (2, "c".into())]);
        texts: String, append, "one ".to_owned(), "two".to_owned();
        talk: Messages, messages, Messages::from(Message::user("a")), Messages::from(Message::user("b"));
    }
}
