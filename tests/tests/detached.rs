//! Detached subagents whose supervisor runs in a worker: a run on the subagent's own thread continues each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::ListQuery;
use hier_core::runs::{MemoryRuns, NewRun, Request, Run as Row, RunQuery, RunStatus, RunStore, ThreadQuery};
use hier_core::{CancellationToken, Durability, Result};
use hier_testkit::ScriptedModel;
use hier_worker::Worker;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[state(flatten)]
    base: BaseState,
}

/// The context: a gate in front of the digging, and the number of digs.
#[derive(Clone)]
struct Mine {
    base: BaseContext,
    gate: Arc<Semaphore>,
    begun: Arc<Semaphore>,
    dug: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Mine {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Leads.
    Foreman<Desk, Mine> = Agent { subagents: [Miner { detached: true }] }
}

graph! {
    /// Digs.
    Miner<Desk, Mine> = Agent { tools: [dig] }
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Mine>) -> Result<String> {
    let mine = run.context();
    mine.begun.add_permits(1);
    mine.gate.acquire().await?.forget();
    mine.dug.fetch_add(1, Ordering::SeqCst);
    Ok("dug".to_owned())
}

impl Mine {
    /// The foreman starts a miner in its first turn, and looks at it in each later one.
    fn new() -> Self {
        let model = ScriptedModel::reacting(|request| {
            let leads = request.tools.iter().any(|tool| tool.name == "check_subagents");
            let last = request.messages.last().expect("a message");
            match (leads, last.text().as_str()) {
                (true, "Dig.") => Message::call("miner", json!({ "task": "ore" })),
                (true, "And?") => Message::call("check_subagents", json!({})),
                (false, text) if text != "dug" => Message::call("dig", json!({})),
                _ => Message::assistant("done"),
            }
        });
        let closed = || Arc::new(Semaphore::new(0));
        Self { base: BaseContext::new(model), gate: closed(), begun: closed(), dug: Arc::default() }
    }
}

/// A worker, until it is stopped or dropped.
fn work(store: &Arc<dyn RunStore>, mine: &Mine) -> (CancellationToken, JoinHandle<()>) {
    let (stop, mine) = (CancellationToken::new(), mine.clone());
    let worker = Worker::new(store.clone())
        .graph("foreman", Foreman::compile().erase(move |_| Ok(mine.clone())))
        .lease_duration(Duration::from_millis(300))
        .poll_interval(Duration::from_millis(20));
    (stop.clone(), tokio::spawn(worker.run_until(stop)))
}

async fn ended(store: &Arc<dyn RunStore>, run: &Row) -> Row {
    let mut changes = store.notifier().thread(&run.thread);
    loop {
        let row = store.run(run.id).await.unwrap().expect("the run");
        if !row.status.is_live() {
            return row;
        }
        changes.changed().await;
    }
}

/// Runs a turn, and returns the results of tools in the conversation.
async fn turn(store: &Arc<dyn RunStore>, text: &str) -> Vec<String> {
    turn_storing(store, text, Durability::Async).await
}

async fn turn_storing(store: &Arc<dyn RunStore>, text: &str, durability: Durability) -> Vec<String> {
    let input = json!({ "messages": [serde_json::to_value(Message::user(text)).unwrap()] });
    let mut request = Request::input(input);
    request.durability = durability;
    let new = NewRun::new("t", "foreman", request).create_thread();
    let row = ended(store, &store.create_run(new).await.unwrap()).await;
    assert_eq!((row.status, &row.error), (RunStatus::Success, &None));
    let messages = row.output.unwrap()["values"]["messages"].take();
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
}

/// Returns the runs of the subagent, newest first.
async fn runs_of_miner(store: &Arc<dyn RunStore>) -> Vec<Row> {
    let mut runs = store.runs(RunQuery::default()).await.unwrap();
    runs.retain(|run| run.thread.starts_with("t/background/miner-1-"));
    runs
}

async fn stores() -> Vec<Arc<dyn RunStore>> {
    vec![Arc::new(MemoryRuns::new()), Arc::new(hier_sqlite::Sqlite::in_memory().await.unwrap())]
}

#[tokio::test]
async fn worker_continues_the_subagent_between_turns() {
    for store in stores().await {
        let mine = Mine::new();
        let (stop, working) = work(&store, &mine);
        assert_eq!(turn(&store, "Dig.").await.len(), 1);
        assert!(turn(&store, "And?").await[1].starts_with("`miner-1` is running"));
        let [run] = &runs_of_miner(&store).await[..] else { panic!("one run continues it") };
        mine.gate.add_permits(1);
        let run = ended(&store, run).await;
        assert_eq!((run.status, &run.error), (RunStatus::Success, &None));
        assert_eq!(run.output.unwrap()["values"], json!({ "status": "reported", "report": "done" }));
        assert_eq!(turn(&store, "And?").await[2], "`miner-1` reported.\ndone");
        assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
        assert_eq!(runs_of_miner(&store).await.len(), 1, "it is collected");
        let listed = store.search_threads(ThreadQuery::default()).await.unwrap();
        assert_eq!(listed.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["t"]);
        stop.cancel();
        working.await.unwrap();
    }
}

#[tokio::test]
async fn subagent_continues_whenever_its_start_is_stored() {
    for store in stores().await {
        for durability in [Durability::Sync, Durability::Exit] {
            let mine = Mine::new();
            let workers = [work(&store, &mine), work(&store, &mine)];
            turn_storing(&store, "Dig.", durability).await;
            mine.gate.add_permits(1);
            let [run] = &runs_of_miner(&store).await[..] else { panic!("one run continues it") };
            let run = ended(&store, run).await;
            assert_eq!(run.output.unwrap()["values"]["status"], json!("reported"), "{durability:?}");
            assert!(store.remove_thread("t").await.unwrap());
            for (stop, working) in workers {
                stop.cancel();
                working.await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn another_worker_continues_the_subagent_of_a_dead_one() {
    for store in stores().await {
        let mine = Mine::new();
        let (_stop, working) = work(&store, &mine);
        turn(&store, "Dig.").await;
        mine.begun.forget_permits(usize::MAX);
        mine.begun.acquire().await.unwrap().forget();
        working.abort();
        assert!(working.await.is_err());
        let (stop, working) = work(&store, &mine);
        mine.gate.add_permits(1);
        let [run] = &runs_of_miner(&store).await[..] else { panic!("one run continues it") };
        assert_eq!(ended(&store, run).await.status, RunStatus::Success);
        assert_eq!(turn(&store, "And?").await[1], "`miner-1` reported.\ndone");
        assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
        stop.cancel();
        working.await.unwrap();
    }
}

#[tokio::test]
async fn deletion_of_the_thread_deletes_the_subagent_and_its_run() {
    for store in stores().await {
        let mine = Mine::new();
        let (stop, working) = work(&store, &mine);
        turn(&store, "Dig.").await;
        mine.begun.forget_permits(usize::MAX);
        mine.begun.acquire().await.unwrap().forget();
        let [run] = &runs_of_miner(&store).await[..] else { panic!("one run continues it") };
        assert!(store.remove_thread("t").await.unwrap());
        stop.cancel();
        working.await.unwrap();
        assert!(store.runs(RunQuery::default()).await.unwrap().is_empty());
        let mut background = ThreadQuery::default();
        background.ids = Some(vec![run.thread.clone()]);
        assert!(store.search_threads(background).await.unwrap().is_empty());
        assert!(store.list(ListQuery::default()).await.unwrap().is_empty());
        assert_eq!(mine.dug.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn callers_cannot_name_a_background_thread() {
    let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
    let new = NewRun::new("t/background/x", "foreman", Request::input(Value::Null)).create_thread();
    let refused = store.create_run(new).await.expect_err("it belongs to `t`");
    assert!(refused.to_string().contains("t/background/x"), "{refused}");
}
