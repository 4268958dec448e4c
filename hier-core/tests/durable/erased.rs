//! Inner graphs, read and changed without their types, as a server does.

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, MemorySaver, SaverError, Source, WhenRunning};
use hier_core::graph::{CompiledGraph, DynGraph, DynInput, DynRun, DynSnapshot, DynUpdates};
use hier_core::prelude::*;
use hier_core::runs::{EventBuffering, MemoryRuns, NewThread, RunLog, RunStore};
use hier_core::state::Values;
use serde_json::{Value, json};

use super::kit::questions;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[reducer(append)]
    log: Vec<String>,
}

/// The private channel of the subgraph, and the shared log.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Draft {
    text: String,
    #[reducer(append)]
    log: Vec<String>,
}

async fn write(draft: &Draft) -> DraftUpdate {
    Draft::update().text(format!("{}a letter", draft.text))
}

async fn review(draft: &Draft, run: &Run) -> hier_core::Result<DraftUpdate> {
    let answer: String = run.interrupt(&draft.text).await?;
    Ok(Draft::update().log([format!("{answer}: {}", draft.text)]))
}

graph! { Drafting<Draft> = Graph { nodes: [write, review], edges: [START >> write >> review >> END] } }

graph! { Office<Case> = Graph { nodes: [Drafting], edges: [START >> Drafting >> END] } }

graph! { Keeping<Case> = Graph { nodes: [Drafting { checkpoints: per_thread }], edges: [START >> Drafting >> END] } }

graph! { Forgetting<Case> = Graph { nodes: [Drafting { checkpoints: none }], edges: [START >> Drafting >> END] } }

// The same two after a deploy that has given the node another name.
graph! { Bureau<Case> = Graph { nodes: [letters = Drafting], edges: [START >> letters >> END] } }

graph! {
    Archive<Case> = Graph { nodes: [letters = Drafting { checkpoints: per_thread }], edges: [START >> letters >> END] }
}

// An office in a house.
graph! { House<Case> = Graph { nodes: [Office], edges: [START >> Office >> END] } }

/// A graph without its types, and a thread of it.
struct Desk<K: ?Sized = MemorySaver> {
    graph: Box<dyn DynGraph>,
    saver: Arc<K>,
}

impl Desk {
    fn new<S: Values>(graph: &CompiledGraph<S, (), impl Sized, impl Sized>) -> Self {
        Self { graph: Box::new(graph.erase(|_| Ok(()))), saver: Arc::new(MemorySaver::new()) }
    }
}

impl<K: Checkpointer> Desk<K> {
    /// The same thread after a deploy.
    fn deployed<S: Values>(self, graph: &CompiledGraph<S, (), impl Sized, impl Sized>) -> Self {
        Self { graph: Box::new(graph.erase(|_| Ok(()))), ..self }
    }

    async fn run(&self, input: DynInput) -> Outcome<Value> {
        let mut run = DynRun::new(input, Config::new().thread("t"));
        run.saver = Some(self.saver.clone());
        self.graph.run(run).await.expect("it runs")
    }

    /// Begins a run, and returns its question.
    async fn start(&self) -> Value {
        self.asks(DynInput::New(json!({}))).await
    }

    async fn asks(&self, input: DynInput) -> Value {
        questions(self.run(input).await).remove(0).value
    }

    async fn answer(&self, answer: &str) -> Value {
        let answer = hier_core::graph::DynCommand::from_json(&json!({ "resume": answer })).expect("an answer");
        self.run(DynInput::Command(answer)).await.into_state()["log"].clone()
    }

    async fn state(&self, config: impl Into<Config>) -> DynSnapshot {
        self.graph.state(self.saver.clone(), config.into()).await.expect("it is read")
    }

    /// Returns the configuration of the subgraph that the only task runs.
    async fn below(&self, config: Config) -> Config {
        self.state(config).await.tasks.remove(0).state.expect("the task runs a graph")
    }

    async fn update(&self, config: Config, update: DynUpdates) -> Result<Config, RunError> {
        self.graph.update_state(self.saver.clone(), config, vec![vec![update]]).await
    }

    async fn refused(&self, config: Config, update: DynUpdates) -> String {
        self.update(config, update).await.expect_err("it is refused").to_string()
    }
}

fn text(text: &str) -> DynUpdates {
    DynUpdates::values(json!({ "text": text }))
}

#[tokio::test]
async fn updated_call_withdraws_its_question_and_asks_again() {
    let desk = Desk::new(&Office::compile());
    assert_eq!(desk.start().await, "a letter");
    let place = desk.below(Config::new().thread("t")).await;
    let inside = desk.state(place.clone()).await;
    assert_eq!(
        (&inside.values, &*inside.next),
        (&json!({ "text": "a letter", "log": [] }), &["review".to_owned()][..])
    );
    assert_eq!(inside.parents.keys().collect::<Vec<_>>(), [""]);

    let made = desk.update(place.clone(), text("a card")).await.unwrap();
    assert_eq!(made.checkpoint_namespace(), place.checkpoint_namespace());
    let changed = desk.state(place.clone()).await;
    assert_eq!((changed.checkpoint, changed.source), (made.checkpoint_id(), Some(Source::Update)));
    assert_eq!((&changed.values["text"], &*changed.next), (&json!("a card"), &["review".to_owned()][..]));
    let root = desk.state("t").await;
    assert!(root.questions.is_empty() && !root.is_finished(), "the question about the letter is withdrawn: {root:?}");
    let past = desk.graph.history(desk.saver.clone(), place, ListQuery::default()).await.unwrap();
    assert_eq!(past.iter().map(|at| at.step).collect::<Vec<_>>(), [2, 1, 0, -1]);

    assert_eq!(desk.asks(DynInput::Continue).await, "a card");
    assert_eq!(desk.answer("sent").await, json!(["sent: a card"]));
}

#[tokio::test]
async fn earlier_state_of_a_call_is_updated() {
    let desk = Desk::new(&Office::compile());
    desk.start().await;
    let place = desk.below(Config::new().thread("t")).await;
    let past = desk.graph.history(desk.saver.clone(), place.clone(), ListQuery::default()).await.unwrap();
    let before = past.into_iter().find(|at| *at.next == ["write".to_owned()]).expect("a state");
    let fork = desk.update(before.config.clone(), text("by hand").as_node("write")).await.unwrap();
    let now = desk.state(place.clone()).await;
    assert_eq!((now.checkpoint, now.parent), (fork.checkpoint_id(), before.checkpoint));
    assert_eq!(desk.asks(DynInput::Continue).await, "by hand");
    // As START: its nodes run again.
    desk.update(place, text("not ").as_node("__start__")).await.unwrap();
    assert_eq!(desk.asks(DynInput::Continue).await, "not a letter");
}

#[tokio::test]
async fn updates_reach_nested_subgraphs() {
    let desk = Desk::new(&House::compile());
    desk.start().await;
    let place = desk.below(desk.below(Config::new().thread("t")).await).await;
    assert_eq!(place.checkpoint_namespace().matches('|').count(), 1);
    desk.update(place, text("a card")).await.unwrap();
    assert_eq!(desk.asks(DynInput::Continue).await, "a card");
    assert_eq!(desk.answer("sent").await, json!(["sent: a card"]));
}

/// The kept state of a subgraph is updated between its calls and before the first.
#[tokio::test]
async fn kept_state_of_a_subgraph_is_updated() {
    let desk = Desk::new(&Keeping::compile());
    let place = Config::new().thread("t").namespace("Drafting");
    desk.update(place.clone(), text("first ")).await.unwrap();
    assert_eq!(desk.start().await, "first a letter");
    assert_eq!(desk.answer("yes").await, json!(["yes: first a letter"]));
    desk.update(place, text("second ")).await.unwrap();
    assert_eq!(desk.start().await, "second a letter");
}

/// Data under the old name of a node is updated, by either name.
#[tokio::test]
async fn call_of_a_renamed_node_is_updated() {
    let before = Desk::new(&Office::compile());
    before.start().await;
    let old = before.below(Config::new().thread("t")).await;
    let desk = before.deployed(&Bureau::compile().renamed("Drafting", "letters").renamed("office", "bureau"));
    let place = desk.below(Config::new().thread("t")).await;
    assert_eq!(place.checkpoint_namespace(), old.checkpoint_namespace());
    let new = Config::new().thread("t").namespace(place.checkpoint_namespace().replace("Drafting", "letters"));
    for (place, letter) in [(place, "a card"), (new, "a poem")] {
        let made = desk.update(place.clone(), text(letter)).await.unwrap();
        assert_eq!(made.checkpoint_namespace(), old.checkpoint_namespace());
        assert_eq!(desk.state(place).await.checkpoint, made.checkpoint_id());
        assert_eq!(desk.asks(DynInput::Continue).await, letter);
    }
    assert_eq!(desk.answer("sent").await, json!(["sent: a poem"]));
}

#[tokio::test]
async fn kept_state_of_a_renamed_node_is_updated() {
    for name in ["Drafting", "letters"] {
        let before = Desk::new(&Keeping::compile());
        before.start().await;
        before.answer("yes").await;
        let desk = before.deployed(&Archive::compile().renamed("Drafting", "letters").renamed("keeping", "archive"));
        let place = Config::new().thread("t").namespace(name);
        assert_eq!(desk.state(place.clone()).await.values["text"], "a letter", "{name}");
        let made = desk.update(place.clone(), text("second ")).await.unwrap();
        assert_eq!(made.checkpoint_namespace(), "Drafting");
        assert_eq!(desk.state(place).await.values["text"], "second ", "{name}");
        assert_eq!(desk.start().await, "second a letter", "{name}");
    }
}

/// A snapshot of a thread in the middle of a call, as another machine reads it.
#[tokio::test]
async fn snapshot_can_be_used_on_another_machine() {
    let desk = Desk::new(&Office::compile());
    desk.start().await;
    let here = desk.state("t").await;
    let there: DynSnapshot = serde_json::from_str(&serde_json::to_string(&here).unwrap()).unwrap();
    assert_eq!(format!("{there:?}"), format!("{here:?}"));
    let place = there.tasks[0].state.clone().expect("the task runs a graph");
    let inside = desk.state(place).await;
    assert_eq!(inside.values["text"], "a letter");
    let inside: DynSnapshot = serde_json::from_str(&serde_json::to_string(&inside).unwrap()).unwrap();
    assert_eq!(desk.state(inside.config).await.values["text"], "a letter");
}

#[tokio::test]
async fn refused_update_changes_nothing() {
    let desk = Desk::new(&Office::compile());
    desk.start().await;
    let place = desk.below(Config::new().thread("t")).await;
    let all = async || desk.saver.list(ListQuery::thread("t")).await.unwrap();
    let before = all().await;
    let at = |namespace: &str| Config::new().thread("t").namespace(namespace);
    let unknown = place.checkpoint_namespace().replace("Drafting", "Draftig");
    let error = desk.refused(at(&unknown), text("x")).await;
    assert!(error.contains("graph `office`") && error.contains("did you mean `Drafting`"), "{error}");
    let error = desk.graph.state(desk.saver.clone(), at(&unknown)).await.unwrap_err().to_string();
    assert!(error.contains("did you mean `Drafting`"), "{error}");
    let error = desk.refused(at(&format!("{}|deeper", place.checkpoint_namespace())), text("x")).await;
    assert!(error.contains("graph `drafting` has no subgraph at a node `deeper`"), "{error}");
    let other = format!("Drafting:{}", uuid::Uuid::nil());
    let error = desk.refused(at(&other), text("x")).await;
    assert!(error.contains(&other) && error.contains("no call"), "{error}");
    let error = desk.refused(at("Drafting"), text("x")).await;
    assert!(error.contains("no call"), "{error}");
    let error = desk.refused(place.clone(), DynUpdates::values(json!({ "txt": "x" }))).await;
    assert!(
        error.contains("graph `drafting`") && error.contains("`values.txt`") && error.contains("`text`"),
        "{error}"
    );
    let error = desk.refused(place.clone(), DynUpdates::values(json!({ "text": 1 }))).await;
    assert!(error.contains("`values.text` does not fit"), "{error}");
    let error = desk.refused(place.clone(), text("x").as_node("Drafting")).await;
    assert!(error.contains("graph `drafting`") && error.contains("`Drafting` is not a node"), "{error}");
    let error = desk.refused(place.clone().checkpoint(uuid::Uuid::nil()), text("x")).await;
    assert!(error.contains("has no checkpoint"), "{error}");
    assert_eq!(all().await, before);

    let lease = desk.saver.acquire("t", Claim { holder: "a run".to_owned(), ..Claim::default() }).await.unwrap();
    let busy = desk.update(place.clone(), text("x")).await.unwrap_err();
    assert!(matches!(&busy, RunError::Saver { error: SaverError::Busy { .. }, .. }), "{busy}");
    desk.saver.release(&lease).await.unwrap();
    let forgetting = Desk::new(&Forgetting::compile());
    forgetting.start().await;
    let error = forgetting.refused(at(place.checkpoint_namespace()), text("x")).await;
    assert!(error.contains("`checkpoints: none`") && error.contains("per_call"), "{error}");
}

/// An update as a server makes it: it is stored together with its index entry, and reads meanwhile already see it.
#[tokio::test]
async fn update_of_a_call_is_stored_with_the_index() {
    for graph in [&Office::compile().erase(|_| Ok(())) as &dyn DynGraph, &Keeping::compile().erase(|_| Ok(()))] {
        let store = Arc::new(MemoryRuns::new());
        store.driver().create_thread(NewThread::new("t")).await.unwrap();
        let mut run = DynRun::new(DynInput::New(json!({})), Config::new().thread("t"));
        run.saver = Some(store.clone());
        questions(graph.run(run).await.expect("it runs"));
        let root = || Config::new().thread("t");
        let before = graph.state(store.clone(), root()).await.unwrap();
        let place = before.tasks[0].state.clone().unwrap();
        let claim = Claim { when_running: WhenRunning::Reject, ..Claim::default() };
        let lease = store.acquire("t", claim).await.unwrap();
        let log = Arc::new(RunLog::new(store.clone(), lease, None, EventBuffering::WithCommits));
        let twice = vec![vec![text("a card")], vec![text("a poem")]];
        graph.update_state(log.clone(), place.clone(), twice).await.unwrap();
        let received = async |saver: Arc<dyn Checkpointer>| {
            let (root, inside) =
                (graph.state(saver.clone(), root()).await, graph.state(saver.clone(), place.clone()).await);
            let past = graph.history(saver, place.clone(), ListQuery::default()).await.unwrap().len();
            (root.unwrap().questions.len(), inside.unwrap().values["text"].clone(), past)
        };
        assert_eq!(received(store.clone()).await, (1, json!("a letter"), 3));
        assert_eq!(received(log.clone()).await, (0, json!("a poem"), 5));
        assert_eq!(received(store.clone()).await, (1, json!("a letter"), 3), "it is only read");
        log.finish(None, None).await.unwrap();
        assert_eq!(received(store.clone()).await, (0, json!("a poem"), 5));
    }
}

/// Between two calls, the checkpoint of the outer graph names the state from which the next one continues.
#[tokio::test]
async fn update_between_calls_is_stored_with_the_index() {
    let desk = Desk { graph: Box::new(Keeping::compile().erase(|_| Ok(()))), saver: Arc::new(MemoryRuns::new()) };
    desk.saver.driver().create_thread(NewThread::new("t")).await.unwrap();
    desk.start().await;
    desk.answer("yes").await;
    let root = Config::new().thread("t");
    let before = desk.state(root.clone()).await;
    let lease = desk.saver.acquire("t", Claim::default()).await.unwrap();
    let log = Arc::new(RunLog::new(desk.saver.clone(), lease, None, EventBuffering::WithCommits));
    let place = root.clone().namespace("Drafting");
    desk.graph.update_state(log.clone(), place.clone(), vec![vec![text("second ")]]).await.unwrap();
    let meanwhile = desk.graph.state(log.clone(), root.clone()).await.unwrap();
    assert_eq!((meanwhile.checkpoint, &meanwhile.values), (before.checkpoint, &before.values));
    assert!(meanwhile.is_finished());
    let listed = log.list(ListQuery { namespace: Some(String::new()), ..ListQuery::thread("t") }).await.unwrap();
    let stored = desk.saver.list(ListQuery { namespace: Some(String::new()), ..ListQuery::thread("t") }).await.unwrap();
    assert_eq!(listed.len(), stored.len(), "the change is applied once");
    assert_ne!(listed[0].checkpoint.agenda.kept, stored[0].checkpoint.agenda.kept);
    assert_eq!(desk.state(place).await.values["text"], "a letter");
    log.finish(None, None).await.unwrap();
    desk.saver.release(log.lease()).await.unwrap();
    assert_eq!(desk.start().await, "second a letter");
}
