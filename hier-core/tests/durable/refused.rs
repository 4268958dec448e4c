//! Refused requests do not end another run.

use std::sync::Arc;

use hier_core::checkpoint::{Inbox, SaverError, ThreadAdmin, WhenRunning};
use hier_core::graph::{NodeDef, ThreadMessage};
use hier_core::prelude::*;
use hier_core::state::DynState;
use hier_core::{Durability, StateUpdate};
use serde_json::json;
use tokio::sync::Notify;

use super::kit::*;

/// Creates the request that is made during a run.
type Make<T> = fn(&Bench) -> T;

/// Runs `work`, then `z`; while `work` is at its work, `other` tries something. Returns what came of both.
async fn while_running<T>(
    config: Config,
    other: impl AsyncFnOnce(&Bench) -> T,
) -> (Bench, Result<Outcome<DynState>, RunError>, T) {
    let (reached, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (reached.clone(), go.clone());
    let mut graph = marks(&["a", "z"]);
    let work = NodeDef::task(move |task: NodeTask| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            task.run().context().hit("work");
            tell.notify_one();
            wait.notified().await;
            task.state().update(json!({ "log": ["work"] }))
        }
    });
    graph = graph.node("work", work).edge(START, "a").edge("a", "work").edge("work", "z");
    let mut bench = Bench::new(graph);
    bench.config = config;
    let (ended, tried) = tokio::join!(Box::pin(bench.start(json!({ "x": 1 }))), async {
        reached.notified().await;
        let tried = Box::pin(other(&bench)).await;
        go.notify_one();
        tried
    });
    (bench, ended, tried)
}

fn is_busy(error: &RunError) -> bool {
    matches!(error, RunError::Saver { error: SaverError::Busy { .. }, .. })
}

/// Decision 37: unless said otherwise only a new input takes a thread over.
#[tokio::test]
async fn commands_and_updates_do_not_take_over_a_running_thread() {
    let config = || Config::new().thread("t").holder("Ada's run");
    let (bench, ended, error) = while_running(config(), async |bench| {
        let update = StateUpdate::update(bench.update(json!({ "x": 2 })));
        bench.graph.update_state(bench.config.clone(), update).await.unwrap_err()
    })
    .await;
    assert!(is_busy(&error) && error.to_string().contains("Ada's run"), "{error}");
    // The error says what to do after a `kill -9`.
    for word in ["WhenRunning::Wait(…)", "killed", "30 s", "`WhenRunning::TakeOver`"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert_eq!((log(ended.unwrap()), bench.tally.of("work")), (json!(["a", "work", "z"]), 1));
    let commands: [fn(&Bench) -> Command<DynState>; 3] = [
        |_| Command::new().goto("z"),
        |bench| Command::update(bench.update(json!({ "x": 2 }))),
        |_| Command::resume("for the first question"),
    ];
    for command in commands {
        let (bench, ended, error) =
            while_running(config(), async |bench| bench.command(command(bench)).await.unwrap_err()).await;
        assert!(is_busy(&error), "{error}");
        assert_eq!((log(ended.unwrap()), bench.tally.of("work")), (json!(["a", "work", "z"]), 1));
    }
    let (_, ended, taken) = while_running(config(), async |bench| {
        bench
            .graph
            .invoke(bench.update(json!({ "x": 2 })))
            .config(bench.config.clone().interrupt_before(["a"]))
            .context(bench.tally.clone())
            .await
    })
    .await;
    assert!(matches!(taken, Ok(Outcome::Stopped(_))), "a new input takes it over");
    assert!(matches!(ended, Err(RunError::Saver { error: SaverError::Superseded { .. }, .. })), "{ended:?}");
}

/// An explicit option always counts.
#[tokio::test]
async fn update_takes_a_thread_over_on_request() {
    let (_, ended, updated) = while_running(Config::new().thread("t"), async |bench| {
        let update = StateUpdate::update(bench.update(json!({ "x": 2 })));
        bench.graph.update_state(bench.config.clone().when_running(WhenRunning::TakeOver), update).await
    })
    .await;
    updated.unwrap();
    assert!(matches!(ended, Err(RunError::Saver { error: SaverError::Superseded { .. }, .. })), "{ended:?}");
}

/// A refused request does not take the thread over, even if it may.
#[tokio::test]
async fn invalid_requests_are_refused_before_the_claim() {
    let config = || Config::new().thread("t").when_running(WhenRunning::TakeOver);
    let commands: [Make<(Command<DynState>, Config)>; 5] = [
        |bench| (Command::resume("yes").goto("typo"), bench.config.clone()),
        |bench| (Command::answers([("0123", "yes")]), bench.config.clone()),
        |bench| (Command::new().goto("typo"), bench.config.clone()),
        |bench| (Command::new(), bench.config.clone().interrupt_before(["typo"])),
        |bench| (Command::resume("yes"), bench.config.clone().checkpoint(uuid::Uuid::nil())),
    ];
    for command in commands {
        let (bench, ended, error) = while_running(config(), async |bench| {
            let (command, config) = command(bench);
            bench.graph.invoke(command).config(config).context(bench.tally.clone()).await.unwrap_err()
        })
        .await;
        assert_eq!((log(ended.unwrap()), bench.tally.of("work")), (json!(["a", "work", "z"]), 1), "{error}");
    }
    let inputs: [fn(&Bench) -> Config; 2] = [
        |bench| bench.config.clone().checkpoint(uuid::Uuid::nil()),
        |bench| bench.config.clone().interrupt_after(["typo"]),
    ];
    for config_of in inputs {
        let (_, ended, _) = while_running(config(), async |bench| {
            bench.continue_from(config_of(bench)).await.unwrap_err();
            let input = bench.update(json!({ "x": 2 }));
            bench.graph.invoke(input).config(config_of(bench)).context(bench.tally.clone()).await.unwrap_err()
        })
        .await;
        assert_eq!(log(ended.unwrap()), json!(["a", "work", "z"]));
    }
    let updates: [Make<Vec<Vec<StateUpdate<DynState>>>>; 5] = [
        |_| Vec::new(),
        |_| vec![vec![StateUpdate::skip("typo")]],
        |_| vec![vec![StateUpdate::skip("a")], vec![StateUpdate::skip("typo")]],
        |_| vec![vec![StateUpdate::command(Command::new().goto("typo"))]],
        |bench| vec![vec![StateUpdate::update(bench.update(json!({ "x": 2 }))).as_node(END_NODE)]],
    ];
    for update in updates {
        let (_, ended, error) = while_running(config(), async |bench| {
            bench.graph.bulk_update_state(bench.config.clone(), update(bench)).await.unwrap_err()
        })
        .await;
        assert!(matches!(error, RunError::Update { .. }), "{error}");
        assert_eq!(log(ended.unwrap()), json!(["a", "work", "z"]), "{error}");
    }
}

/// The end as the author of an update, which writes nothing.
const END_NODE: &str = "__end__";

/// Nothing is stored of the first superstep if the second names a node that is not there.
#[tokio::test]
async fn several_updates_are_atomic() {
    let bench = Bench::new(row(&["a", "b"]));
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let before = bench.tree().await;
    let supersteps = [[StateUpdate::skip("a")], [StateUpdate::skip("typo")]];
    let error = bench.graph.bulk_update_state(bench.config.clone(), supersteps).await.unwrap_err();
    assert!(error.to_string().contains("`typo` is not a node"), "{error}");
    assert_eq!(bench.tree().await, before);
}

#[tokio::test]
async fn new_thread_has_a_name_of_its_own() {
    let background: &[&str] = &["is that of a background run of thread `t`", "give a name without `/background/`"];
    let empty: &[&str] = &["the name of a thread is empty", "give one with at least one character"];
    for (name, texts) in [("t/background/a-1", background), ("", empty)] {
        let mut bench = Bench::new(row(&["a", "b"]).inbox("log"));
        bench.config = Config::new().thread(name);
        let update = StateUpdate::update(bench.update(json!({ "x": 2 })));
        let command = Command::update(bench.update(json!({ "x": 2 })));
        let config = || bench.config.clone();
        for error in [
            bench.graph.update_state(config(), update).await.unwrap_err(),
            bench.graph.invoke(command).config(config()).context(Tally::default()).await.unwrap_err(),
            bench.graph.send(config(), ThreadMessage::message(&"hello")).await.unwrap_err(),
            bench.start(json!({ "x": 1 })).await.unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(texts.iter().all(|text| error.contains(text)), "{error}");
        }
        assert_eq!(bench.saver.threads(None).await.unwrap(), []);
        assert_eq!(bench.saver.messages(name).await.unwrap(), []);
    }
}

/// `()` on a thread of which nothing is stored yet, because its first run is only just beginning.
#[tokio::test]
async fn continuing_does_not_end_the_first_run_of_a_thread() {
    let (reached, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (reached.clone(), go.clone());
    let mut graph = builder();
    let first = NodeDef::task(move |task: NodeTask| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            task.state().update(json!({ "log": ["first"] }))
        }
    });
    graph = graph.node("first", first).edge(START, "first");
    let mut bench = Bench::new(graph);
    // Nothing is stored before the end.
    bench.config = bench.config.durability(Durability::Exit);
    let (ended, error) = tokio::join!(bench.start(json!({ "x": 1 })), async {
        reached.notified().await;
        let error = bench.continue_run().await.unwrap_err();
        go.notify_one();
        error
    });
    assert!(matches!(error, RunError::EmptyInput { .. }), "{error}");
    assert_eq!(log(ended.unwrap()), json!(["first"]));
}
