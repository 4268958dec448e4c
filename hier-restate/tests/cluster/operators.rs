//! Operators who cancel or kill invocations of Restate.

use std::sync::Arc;
use std::time::Duration;

use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{Error, RemoteGraph};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use crate::support::{Door, invocations, serve_as, server};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(sum)]
    steps: u64,
}

graph! {
    Held<Desk, Arc<Door>> = Graph {
        nodes: [seed, before = tick, hold, tick],
        edges: [
            START >> seed >> before >> for item in items { hold(item) },
            hold >> tick >> if is_over { END } else { tick },
        ],
    }
}

async fn seed() {}

fn items(_: &Desk) -> Vec<u64> {
    vec![1, 2]
}

async fn hold(Sent(_item): Sent<u64>, run: &Run<Arc<Door>>) -> DeskUpdate {
    run.context().pass().await;
    Desk::update().steps(1)
}

/// Lasts longer than an invocation executes further supersteps.
async fn tick() -> DeskUpdate {
    tokio::time::sleep(Duration::from_millis(25)).await;
    Desk::update().steps(1)
}

fn is_over(state: &Desk) -> bool {
    state.steps >= 500
}

async fn stop(invocation: &str, how: &str) {
    let (_, admin) = server();
    let sent = reqwest::Client::new().patch(format!("{admin}/invocations/{invocation}/{how}")).send().await;
    sent.unwrap().error_for_status().unwrap();
}

type Running = JoinHandle<Result<Outcome<Value>, Error>>;

/// A worker, and a run whose tasks wait at the door.
async fn held(local: bool) -> (String, RemoteGraph, Arc<Door>, Running) {
    let (name, door) = (format!("held-{}", Uuid::new_v4().simple()), Arc::new(Door::default()));
    let context = door.clone();
    let graph = serve_as(&name, |endpoint| {
        let endpoint = endpoint.graph(&name, Held::compile(), context);
        if local { endpoint.fan_out(hier_restate::FanOut::Local) } else { endpoint }
    });
    let graph = graph.await;
    let client = graph.clone();
    let run = tokio::spawn(async move { client.invoke(DynInput::New(json!({}))).thread("t").await });
    door.wait_for(2).await;
    (name, graph, door, run)
}

/// The client receives the end of the cancelled run, and the thread can be used again.
async fn is_cancelled(graph: &RemoteGraph, door: &Door, run: Running) {
    let ended = timeout(Duration::from_secs(30), run).await.expect("the run ends").unwrap();
    let Err(Error::Run(failure)) = ended else { panic!("{ended:?}") };
    assert_eq!(failure.kind, "Cancelled", "{failure}");
    assert!(!graph.cancel("t").await.unwrap(), "the thread has an active run");
    door.admit(4);
    let input = DynInput::New(json!({ "steps": 490 }));
    let end = timeout(Duration::from_mins(1), graph.invoke(input).thread("t")).await.expect("the run ends");
    assert!(end.unwrap().is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn cancelled_invocation_of_a_thread_ends_its_run() {
    let (name, graph, door, run) = held(true).await;
    for invocation in invocations(&name).await {
        stop(&invocation, "cancel").await;
    }
    door.admit(2);
    is_cancelled(&graph, &door, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn cancelled_invocation_of_a_task_ends_its_run() {
    let (name, graph, door, run) = held(false).await;
    let tasks = invocations(&format!("{name}.task")).await;
    assert_eq!(tasks.len(), 2);
    stop(&tasks[0], "cancel").await;
    door.admit(2);
    is_cancelled(&graph, &door, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn cancelled_invocation_of_a_run_ends_the_run_of_the_thread() {
    let (name, graph, door, run) = held(true).await;
    for invocation in invocations(&format!("{name}.run")).await {
        stop(&invocation, "cancel").await;
    }
    door.admit(2);
    is_cancelled(&graph, &door, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_whose_invocation_was_killed_can_be_cancelled() {
    for by_client in [true, false] {
        let (name, graph, door, run) = held(true).await;
        for invocation in invocations(&name).await {
            stop(&invocation, "kill").await;
        }
        if by_client {
            assert!(graph.cancel("t").await.unwrap());
        } else {
            for invocation in invocations(&format!("{name}.run")).await {
                stop(&invocation, "cancel").await;
            }
        }
        is_cancelled(&graph, &door, run).await;
    }
}

graph! {
    Sleeps<Desk, (Duration, Arc<Door>)> = Graph {
        nodes: [rest],
        edges: [START >> rest >> END],
    }
}

async fn rest(run: &Run<(Duration, Arc<Door>)>) -> hier_core::Result<DeskUpdate> {
    let (sleep, door) = run.context();
    run.sleep(*sleep).await?;
    door.pass().await;
    Ok(Desk::update().steps(1))
}

/// A worker, and a thread that sleeps for this time and then waits at the door.
async fn sleeping(sleep: Duration) -> (String, RemoteGraph, Arc<Door>) {
    let (name, door) = (format!("sleeps-{}", Uuid::new_v4().simple()), Arc::new(Door::default()));
    let context = (sleep, door.clone());
    let graph = serve_as(&name, |endpoint| endpoint.graph(&name, Sleeps::compile(), context)).await;
    let config = Config::new().thread("t").sleep_in_place(Duration::ZERO);
    let end = graph.invoke(DynInput::New(json!({}))).config(config).await.unwrap();
    assert!(!end.is_finished());
    (name, graph, door)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_whose_scheduled_wake_up_was_cancelled_is_woken_after_the_next_message() {
    let (name, graph, door) = sleeping(Duration::from_secs(2)).await;
    for invocation in invocations(&name).await {
        stop(&invocation, "cancel").await;
    }
    let signals = async {
        loop {
            graph.signal("t", "other", &json!(null), None).await.unwrap();
        }
    };
    tokio::select! {
        () = door.wait_for(1) => {}
        () = signals => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("the thread does not wake up"),
    }
    door.admit(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_whose_wake_up_was_cancelled_is_woken_again() {
    let (name, graph, door) = sleeping(Duration::from_millis(50)).await;
    door.wait_for(1).await;
    let woken = invocations(&name).await;
    for invocation in &woken {
        stop(invocation, "cancel").await;
    }
    door.admit(1);
    // This request waits until the cancelled wake-up has ended.
    assert!(!graph.cancel("t").await.unwrap());
    let scheduled = async {
        while invocations(&name).await.iter().all(|invocation| woken.contains(invocation)) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), scheduled).await.expect("the next wake-up is scheduled");
}
