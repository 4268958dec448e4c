//! A run on a cluster sends the events of a run in one process, however many slices it has.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{DynCommand, DynGraph, DynInput, DynRun, DynSnapshot};
use hier_core::prelude::*;
use hier_core::runs::{LogEvent, NewEvent, StreamMode, TaskPhase};
use hier_restate::{FanOut, Hub, RemoteGraph, StreamItem};
use serde_json::json;

use crate::support::serve;

const MODES: [StreamMode; 3] = [StreamMode::Updates, StreamMode::Tasks, StreamMode::Values];

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    answers: Vec<String>,
}

graph! {
    Office<Desk> = Graph {
        nodes: [open, Case, beside, close],
        edges: [START >> open >> [Case, beside] >> close >> END],
    }
}

graph! {
    Case<Desk> = Graph {
        nodes: [read, ask_buyer, ask_seller, file],
        edges: [START >> read >> [ask_buyer, ask_seller] >> file >> END],
    }
}

async fn open() -> DeskUpdate {
    Desk::update().done(1)
}

async fn beside() -> DeskUpdate {
    Desk::update().done(1)
}

async fn close() -> DeskUpdate {
    Desk::update().done(1)
}

async fn read() -> DeskUpdate {
    Desk::update().done(1)
}

async fn ask_buyer(run: &Run) -> hier_core::Result<DeskUpdate> {
    Ok(Desk::update().answers([run.interrupt::<String>(&"buyer").await?]))
}

async fn ask_seller(run: &Run) -> hier_core::Result<DeskUpdate> {
    Ok(Desk::update().answers([run.interrupt::<String>(&"seller").await?]))
}

async fn file() -> DeskUpdate {
    Desk::update().done(1)
}

/// Returns what an event says. Ids are left out, because they differ between two runs.
fn label(event: NewEvent) -> String {
    match event.body {
        LogEvent::Values(values) => format!("values {values}"),
        LogEvent::Updates(update) => format!("{} wrote {} {}", update.node, update.writes, update.cached),
        LogEvent::Interrupted(questions) => {
            let mut values: Vec<String> = questions.iter().map(|question| question.value.to_string()).collect();
            values.sort();
            format!("asked {values:?}")
        }
        LogEvent::Task(task) => match task.phase {
            TaskPhase::Started { .. } => format!("{} started", task.node),
            TaskPhase::Finished { interrupts, .. } => {
                format!("{} ended with {} questions", task.node, interrupts.len())
            }
        },
        other => panic!("no requested mode has {other:?}"),
    }
}

/// Tasks run at the same time, so their events have no order.
fn sorted(mut labels: Vec<String>) -> Vec<String> {
    labels.sort();
    labels
}

async fn in_one_process(graph: &dyn DynGraph, saver: &MemorySaver, input: DynInput) -> Vec<String> {
    let labels = Arc::new(Mutex::new(Vec::new()));
    let written = labels.clone();
    let mut run = DynRun::new(input, Config::new().thread("desk"));
    run.saver = Some(Arc::new(saver.clone()));
    run.modes = MODES.to_vec();
    run.event_sink = Some(Arc::new(move |event| written.lock().unwrap().push(label(event))));
    let _ = graph.run(run).await.unwrap();
    let labels = std::mem::take(&mut *labels.lock().unwrap());
    sorted(labels)
}

async fn on_a_cluster(graph: &RemoteGraph, hub: &Hub, input: DynInput) -> Vec<String> {
    let mut stream = graph.stream(hub, input).thread("desk").modes(MODES).start();
    let mut labels = Vec::new();
    while let Some(item) = stream.next().await {
        let StreamItem::Event(event) = item else { panic!("no process died here, and yet: {item:?}") };
        labels.push(label(event));
    }
    let _ = stream.outcome().await.unwrap();
    sorted(labels)
}

fn answer(thread: &DynSnapshot, asked: &str) -> DynInput {
    let question = thread.questions.iter().find(|question| question.value == asked).unwrap();
    let mut command = DynCommand::default();
    command.resume = Some(json!({ question.id.clone(): "yes" }));
    DynInput::Command(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn each_event_is_sent_once() {
    let hub = Hub::listen("127.0.0.1:0").await.unwrap();
    for fan_out in [FanOut::Local, FanOut::Remote(2)] {
        let remote = serve(|endpoint, name| endpoint.graph(name, Office::compile(), ()).fan_out(fan_out.clone())).await;
        let (local, saver) = (Office::compile().erase(|_| Ok(())), MemorySaver::new());
        let config = || Config::new().thread("desk");
        // A run without answers asks both questions again. The node next to the subgraph has a restored result.
        for input in [|| DynInput::New(json!({})), || DynInput::Continue] {
            let expected = in_one_process(&local, &saver, input()).await;
            assert_eq!(on_a_cluster(&remote, &hub, input()).await, expected, "{fan_out:?}, {:?}", input());
        }
        for asked in ["seller", "buyer"] {
            let here = local.state(Arc::new(saver.clone()), config()).await.unwrap();
            let expected = in_one_process(&local, &saver, answer(&here, asked)).await;
            let there = remote.state(config()).await.unwrap();
            assert_eq!(on_a_cluster(&remote, &hub, answer(&there, asked)).await, expected, "{fan_out:?}, {asked}");
        }
        assert!(remote.state(config()).await.unwrap().next.is_empty());
    }
}
