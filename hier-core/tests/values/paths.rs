//! The paths that a value takes: stored, read, copied, migrated, sent, signalled, answered, through JSON and back.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::{Checkpointer, MemorySaver, ThreadAdmin};
use hier_core::graph::{DynGraph, DynInput, DynRun, Signal, ThreadMessage};
use hier_core::prelude::*;
use hier_core::store::{MemoryStore, StoreExt};
use hier_core::{Result, StateUpdate};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::animals::{Larger, LargerUpdate, Renamed, RenamedUpdate, Zoo, ZooUpdate, exact, full, through_json};

async fn feed() -> ZooUpdate {
    ZooUpdate::from(full())
}

async fn ask(run: &Run) -> Result<ZooUpdate> {
    let _: bool = run.interrupt(&"open?").await?;
    Ok(Zoo::update())
}

graph! { Feeding<Zoo> = Graph { name: "zoo", nodes: [feed], edges: [START >> feed >> END] } }
graph! { Waiting<Zoo> = Graph { name: "zoo", nodes: [feed, ask], edges: [START >> [feed, ask] >> END] } }

async fn see() -> LargerUpdate {
    Larger::update()
}

async fn look() -> RenamedUpdate {
    Renamed::update()
}

graph! { FeedingLarger<Larger> = Graph { name: "zoo", nodes: [feed = see], edges: [START >> feed >> END] } }
graph! { WaitingLarger<Larger> = Graph { name: "zoo", nodes: [feed = see, ask = see], edges: [START >> [feed, ask] >> END] } }
graph! { FeedingRenamed<Renamed> = Graph { name: "zoo", nodes: [feed = look], edges: [START >> feed >> END] } }

/// A state whose values are zoos.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct House {
    #[reducer(append)]
    zoos: Vec<Zoo>,
}

type Texts = Vec<(&'static str, String)>;

fn thread() -> Config {
    Config::new().thread("t")
}

#[tokio::test]
async fn values_survive_saver_copy_fork_and_update() {
    let saver = MemorySaver::new();
    let graph = Feeding::compile().checkpointer(saver.clone());
    let _ = graph.invoke(Zoo::update()).config(thread()).await.unwrap();
    let again = Feeding::compile().checkpointer(saver.clone());
    assert_eq!(again.state(thread()).await.unwrap().values.texts(), exact());

    saver.copy_thread("t", "copy").await.unwrap();
    assert_eq!(again.state("copy").await.unwrap().values.texts(), exact());

    again.update_state("u", StateUpdate::input(ZooUpdate::from(full()))).await.unwrap();
    assert_eq!(again.invoke(()).thread("u").await.unwrap().state().texts(), exact());

    let first = again.states(thread()).await.unwrap().pop().expect("a checkpoint");
    let forked = again.invoke(()).config(first.config).await.unwrap();
    assert_eq!(forked.state().texts(), exact());
}

#[tokio::test]
async fn writes_pending_on_a_sibling_round_trip() {
    let saver = MemorySaver::new();
    let _ = Waiting::compile().checkpointer(saver.clone()).invoke(Zoo::update()).config(thread()).await.unwrap();
    let end =
        Waiting::compile().checkpointer(saver.clone()).invoke(Command::resume(true)).config(thread()).await.unwrap();
    assert_eq!(end.state().texts(), exact());
}

#[tokio::test]
async fn migration_keeps_untouched_channels() {
    let saver = MemorySaver::new();
    let _ = Feeding::compile().checkpointer(saver.clone()).invoke(Zoo::update()).config(thread()).await.unwrap();
    let migrated = FeedingLarger::compile().checkpointer(saver.clone()).state(thread()).await.unwrap();
    assert_eq!((&*migrated.values.keeper, migrated.values.texts()), ("ann", exact()));

    // The writes of a task that wait for its sibling, too.
    let config = Config::new().thread("waiting");
    let _ = Waiting::compile().checkpointer(saver.clone()).invoke(Zoo::update()).config(config.clone()).await.unwrap();
    let migrated = WaitingLarger::compile().checkpointer(saver.clone()).invoke(()).config(config).await.unwrap();
    assert_eq!(migrated.state().texts(), exact());
}

#[tokio::test]
async fn migration_moves_values() {
    let saver = MemorySaver::new();
    let _ = Feeding::compile().checkpointer(saver.clone()).invoke(Zoo::update()).config(thread()).await.unwrap();
    let migrated = FeedingRenamed::compile().checkpointer(saver).state(thread()).await.unwrap();
    assert_eq!(migrated.values.texts(), through_json());
}

mod sends {
    use super::*;

    async fn spread() -> HouseUpdate {
        House::update()
    }

    async fn take(Sent(zoo): Sent<Zoo>, run: &Run) -> Result<HouseUpdate> {
        let _: bool = run.interrupt(&"open?").await?;
        Ok(House::update().zoos([zoo]))
    }

    fn items(_: &House) -> Vec<Zoo> {
        vec![full()]
    }

    graph! {
        Items<House> = Graph {
            nodes: [spread, take],
            edges: [START >> spread >> for item in items { take(item) }, take >> END],
        }
    }

    #[tokio::test]
    async fn sent_item_round_trips() {
        let saver = MemorySaver::new();
        let _ = Items::compile().checkpointer(saver.clone()).invoke(House::update()).config(thread()).await.unwrap();
        let end = Items::compile().checkpointer(saver).invoke(Command::resume(true)).config(thread()).await.unwrap();
        assert_eq!(end.state().zoos[0].texts(), exact());
    }

    /// The zoo as the state of a separate graph, whose result reaches the house over a shared channel.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Visit {
        zoo: Option<Zoo>,
        #[state(flatten)]
        animals: Zoo,
        #[reducer(append)]
        zoos: Vec<Zoo>,
    }

    async fn visit(visit: &Visit, run: &Run) -> Result<VisitUpdate> {
        let _: bool = run.interrupt(&"open?").await?;
        Ok(Visit::update().zoos([visit.animals.clone(), visit.zoo.clone().unwrap_or_default()]))
    }

    fn visits(_: &House) -> Vec<Visit> {
        vec![Visit { zoo: Some(full()), animals: full(), zoos: Vec::new() }]
    }

    graph! { Visiting<Visit> = Graph { nodes: [visit], edges: [START >> visit >> END] } }
    graph! {
        States<House> = Graph {
            nodes: [spread, Visiting],
            edges: [START >> spread >> for item in visits { Visiting(item) }, Visiting >> END],
        }
    }

    #[tokio::test]
    async fn state_sent_to_a_graph_round_trips() {
        let saver = MemorySaver::new();
        let _ = States::compile().checkpointer(saver.clone()).invoke(House::update()).config(thread()).await.unwrap();
        let end = States::compile().checkpointer(saver).invoke(Command::resume(true)).config(thread()).await.unwrap();
        let zoos: Vec<Texts> = end.state().zoos.iter().map(Zoo::texts).collect();
        assert_eq!(zoos, [exact(), exact()]);
    }
}

mod mail {
    use super::*;

    async fn hear(run: &Run) -> Result<HouseUpdate> {
        let zoo: Zoo = run.step("kept", async || Ok(full())).await?;
        let (rust, json): (Zoo, Zoo) = (run.signal("rust").await?, run.signal("json").await?);
        let answer: Zoo = run.interrupt(&full()).await?;
        Ok(House::update().zoos([zoo, rust, json, answer]))
    }

    graph! { Hearing<House> = Graph { nodes: [hear], edges: [START >> hear >> END], inbox: zoos } }

    fn zoo_json() -> Value {
        let values = hier_core::checkpoint::codec::to_json(&full());
        values.unwrap()
    }

    #[tokio::test]
    async fn signals_messages_steps_questions_and_answers_round_trip() {
        let saver = MemorySaver::new();
        let graph = || Hearing::compile().checkpointer(saver.clone());
        let erased = || graph().erase(|_| Ok(()));
        let shared: Arc<dyn Checkpointer> = Arc::new(saver.clone());
        let _ = graph().invoke(House::update()).config(thread()).await.unwrap();
        graph().send("t", Signal::new("rust", &full())).await.unwrap();
        erased().send(shared.clone(), "t", Uuid::new_v4(), Some("json"), &zoo_json()).await.unwrap();
        let asked = graph().invoke(()).config(thread()).await.unwrap();
        let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
        assert_eq!(asked.questions[0].parse::<Zoo>().unwrap().texts(), through_json());
        let end = graph().invoke(Command::resume(full())).config(thread()).await.unwrap();
        let zoos: Vec<Texts> = end.state().zoos.iter().map(Zoo::texts).collect();
        assert_eq!(zoos, [exact(), exact(), through_json(), through_json()]);

        graph().send("t", ThreadMessage::message(&full())).await.unwrap();
        erased().send(shared, "t", Uuid::new_v4(), None, &zoo_json()).await.unwrap();
        graph().send("t", ThreadMessage::message(&zoo_json())).await.unwrap();
        let end = graph().invoke(House::update()).config(thread()).await;
        let Outcome::Interrupted(asked) = end.unwrap() else { panic!("it asks for the signals") };
        let zoos: Vec<Texts> = asked.state.zoos[4..].iter().map(Zoo::texts).collect();
        assert_eq!(zoos, [exact(), through_json(), through_json()]);
    }
}

#[tokio::test]
async fn store_item_round_trips() {
    let store = MemoryStore::default();
    store.put(["zoos"], "t", &full()).await.unwrap();
    let item = store.get(["zoos"], "t").await.unwrap().expect("an item");
    assert_eq!(item.parse::<Zoo>().unwrap().texts(), through_json());
}

/// Reads and writes JSON as a server does, and compares the JSON of the stored state.
#[tokio::test]
async fn json_forms_round_trip() {
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let graph = Feeding::compile().checkpointer(saver.clone());
    let erased = graph.erase(|_| Ok(()));
    let received = Arc::new(Mutex::new(Vec::new()));
    let mut run = DynRun::new(DynInput::New(json!({})), thread());
    run.saver = Some(saver.clone());
    run.modes =
        vec![StreamMode::Values, StreamMode::Updates, StreamMode::Tasks, StreamMode::Debug, StreamMode::Checkpoints];
    let log = received.clone();
    run.event_sink =
        Some(Arc::new(move |event: hier_core::runs::NewEvent| log.lock().unwrap().push(event.body.data())));
    let shown = erased.run(run).await.unwrap().into_state();
    assert_eq!(shown["nan"], "NaN");
    assert_eq!(shown["by_pair"], json!({ "[1,-2]": "b" }));
    assert_eq!(shown["id"], crate::animals::ID.to_string());
    assert_eq!(shown["huge"], u128::MAX.to_string());
    let received = received.lock().unwrap().clone();
    assert!(received.len() >= 8 && received.contains(&shown), "{received:?}");
    assert_eq!(erased.state(saver.clone(), thread()).await.unwrap().values, shown);
    // Stored values read like shown ones, as the command line and the studio read them.
    let stored = saver.get("t", "", None).await.unwrap().expect("a checkpoint");
    for (channel, chain) in &stored.values {
        let name = &*stored.checkpoint.channels[*channel];
        assert_eq!(hier_core::checkpoint::chain_json(chain).unwrap(), shown[name], "{name}");
    }

    // Each channel by itself, as the studio edits one, and all of them as an input.
    let edited = Config::new().thread("edited");
    for (name, value) in shown.as_object().unwrap() {
        let update = hier_core::graph::DynUpdates::values(json!({ name.as_str(): value }));
        let update = erased.update_state(saver.clone(), edited.clone(), vec![vec![update]]).await;
        update.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let typed = graph.state(edited).await.unwrap().values;
    assert_eq!(typed.texts(), through_json());
    let input = Config::new().thread("input");
    let mut run = DynRun::new(DynInput::New(shown.clone()), input.clone());
    run.saver = Some(saver.clone());
    erased.check(&run.input).unwrap();
    let _ = erased.run(run).await.unwrap();
    let first = graph.states(input).await.unwrap().into_iter().rev().nth(1).expect("the step of the input");
    assert_eq!(first.values.texts(), through_json());
}
