//! Secret channels: the value reaches nodes, and nothing else.
#![cfg(feature = "encryption")]

use std::path::Path;
use std::sync::Arc;

use hier_core::checkpoint::{ListQuery, MemorySaver};
use hier_core::graph::{Command, DynGraph, DynGraphInfo, DynInput, DynRun};
use hier_core::prelude::*;
use hier_core::{Config, RunError, StateUpdate, StreamMode};
use hier_sqlite::{Key, Sqlite};
use serde_json::{Value, json};

/// The text for which every output is searched.
const CANARY: &str = "canary-7f3a";

#[derive(State, Clone, Default, PartialEq)]
struct Desk {
    /// The customer's access token.
    #[channel(secret)]
    #[state(rename = "access")]
    token: String,
    #[channel(secret)]
    #[reducer(append)]
    keys: Vec<String>,
    #[reducer(append)]
    seen: Vec<usize>,
}

#[derive(View)]
#[view(of = Desk)]
struct Access<'a> {
    token: &'a String,
    keys: &'a Vec<String>,
}

async fn renew(access: Access<'_>) -> DeskUpdate {
    Desk::update().keys([format!("{}-renewed", access.token)]).seen([access.token.len()])
}

async fn only_secret(access: Access<'_>) -> DeskUpdate {
    Desk::update().keys(access.keys.clone())
}

async fn ask(access: Access<'_>, run: &Run) -> hier_core::Result<DeskUpdate> {
    let more: usize = run.interrupt(&"how many more?").await?;
    Ok(Desk::update().seen([access.token.len() + access.keys.len() + more]))
}

graph! { Inner<Desk> = Graph { nodes: [renew, only_secret], edges: [START >> renew >> only_secret >> END] } }
graph! { Service<Desk> = Graph { nodes: [inner = Inner, ask], edges: [START >> inner >> ask >> END] } }

const MODES: [StreamMode; 6] = [
    StreamMode::Values,
    StreamMode::Updates,
    StreamMode::Tasks,
    StreamMode::Debug,
    StreamMode::Checkpoints,
    StreamMode::Messages,
];

async fn sqlite(path: &Path) -> Sqlite {
    Sqlite::options().encrypt(&Key::new([7; 32])).open(path).await.unwrap()
}

fn config() -> Config {
    Config::new().thread("t").stream_subgraphs(true)
}

fn hides(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what} shows the secret: {text}");
}

fn no_canary_in_files(folder: &Path) {
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "a file has the secret");
    }
}

#[tokio::test]
async fn secret_is_in_no_output_and_reaches_every_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("desk.db");
    let graph = Service::compile().checkpointer(sqlite(&path).await);
    let mut stream = graph.stream(Desk::update().token(CANARY)).config(config()).modes(MODES);
    let mut events = 0;
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        hides("an event", &format!("{event:?} {}", event.to_json().unwrap()));
        events += 1;
    }
    assert!(events > 10);

    let snapshot = graph.state("t").await.unwrap();
    assert_eq!(snapshot.values.token, CANARY);
    hides("the snapshot", &format!("{snapshot:?}"));
    hides("the history", &format!("{:?}", graph.states("t").await.unwrap()));
    graph
        .update_state("t", StateUpdate::update(Desk::update().token(format!("{CANARY}!"))).as_node("inner"))
        .await
        .unwrap();
    no_canary_in_files(folder.path());

    // Another process resumes the thread with the value.
    drop(graph);
    let graph = Service::compile().checkpointer(sqlite(&path).await);
    let asked = graph.invoke(()).config(config()).await.unwrap();
    assert!(!asked.is_finished());
    let out = graph.invoke(Command::resume(1)).config(config()).await.unwrap();
    hides("the outcome", &format!("{out:?}"));
    // The token has one letter more since the update, and there are four keys: two, doubled.
    assert_eq!(out.state().seen.last(), Some(&(CANARY.len() + 1 + out.state().keys.len() + 1)));
    no_canary_in_files(folder.path());
}

#[tokio::test]
async fn erased_graph_leaves_the_channel_out() {
    let saver = Arc::new(MemorySaver::new());
    let graph = Service::compile().erase(|_| Ok(()));
    let schema = graph.schemas().state.clone().unwrap();
    assert_eq!(schema["properties"]["access"]["writeOnly"], true);
    let mut run = DynRun::new(DynInput::New(json!({ "access": CANARY })), config());
    run.saver = Some(saver.clone());
    hides("a run", &format!("{run:?}"));
    let out = graph.run(run).await.unwrap();
    let state = out.state().clone();
    hides("the JSON of the state", &state.to_string());
    assert_eq!(state["access"], Value::Null);
    assert_eq!(state["seen"], json!([CANARY.len()]));
    let snapshot = graph.state(saver.clone(), config()).await.unwrap();
    hides("the JSON of a snapshot", &serde_json::to_string(&snapshot).unwrap());
    let history = graph.history(saver, config(), ListQuery::default()).await.unwrap();
    hides("the JSON of the history", &serde_json::to_string(&history).unwrap());
    // The decoder would quote the value.
    let misfit = graph.check(&DynInput::New(json!({ "keys": CANARY }))).unwrap_err();
    hides("an error", &format!("{misfit} {misfit:?}"));
    assert!(misfit.to_string().contains("`input.keys`"), "{misfit}");
}

#[tokio::test]
async fn saver_without_a_key_is_refused_before_anything_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let saver = Arc::new(Sqlite::open(folder.path().join("plain.db")).await.unwrap());
    let graph = Service::compile().checkpointer(saver.clone());
    let error = graph.invoke(Desk::update().token(CANARY)).config(config()).await.unwrap_err();
    assert!(matches!(error, RunError::Unencrypted { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "channel `access` of graph `service` is secret, but the saver does not encrypt: open the saver with a key, for example with \
         `Sqlite::options().encrypt(&key)` (feature `encryption`)"
    );
    let update = StateUpdate::update(Desk::update().token(CANARY));
    assert!(matches!(graph.update_state("t", update).await, Err(RunError::Unencrypted { .. })));
    no_canary_in_files(folder.path());
    // In memory, values do not leave the process.
    let _ = Service::compile().checkpointer(MemorySaver::new()).invoke(Desk::update()).config(config()).await.unwrap();
}

#[test]
fn debug_of_states_and_updates_hides_the_value() {
    let state = Desk { token: CANARY.to_owned(), keys: vec![CANARY.to_owned()], seen: vec![1] };
    assert_eq!(format!("{state:?}"), "Desk { token: [secret], keys: [secret], seen: [1] }");
    hides("an update", &format!("{:?}", Desk::update().token(CANARY)));
}
