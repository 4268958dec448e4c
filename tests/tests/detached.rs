//! Detached subagents whose supervisor runs in a worker: a run on the subagent's own thread continues each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::checkpoint::ListQuery;
use hier_core::runs::{
    Cancel, Changed, MemoryRuns, NewRun, Request, Run as Row, RunQuery, RunStatus, RunStore, RunsError, ThreadAction,
    ThreadChange, ThreadQuery,
};
use hier_core::{CancellationToken, Durability, Result, async_trait};
use hier_testkit::{Layered, RunsLayer, SaverLayer, ScriptedModel};
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
    Foreman<Desk, Mine> = Agent { subagents: [Miner { detached: true }, Buyer { detached: true }] }
}

graph! {
    /// Digs.
    Miner<Desk, Mine> = Agent { tools: [dig] }
}

graph! {
    /// Buys.
    Buyer<Desk, Mine> = Agent { tools: [buy] }
}

/// Asks for a price, for a moment.
#[tool]
async fn buy(run: &Run<Mine>) -> Result<String> {
    let due = SystemTime::now() + Duration::from_millis(200);
    run.interrupt::<String>(&"How much?").until(due, "dug".to_owned()).await
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
    /// The foreman does what the user says. Subagents call their tool once.
    fn new() -> Self {
        let model = ScriptedModel::reacting(|request| {
            let leads = request.tools.iter().any(|tool| tool.name == "check_subagents");
            let last = request.messages.last().expect("a message");
            match (leads, last.text().as_str()) {
                (true, "Dig.") => Message::call("miner", json!({ "task": "ore" })),
                (true, "Buy.") => Message::call("buyer", json!({ "task": "ore" })),
                (true, "And?") => Message::call("check_subagents", json!({})),
                (true, "Wait.") => Message::call("wait_for_subagents", json!({})),
                (false, text) if text != "dug" => {
                    let has_dig = request.tools.iter().any(|tool| tool.name == "dig");
                    Message::call(if has_dig { "dig" } else { "buy" }, json!({}))
                }
                _ => Message::assistant("done"),
            }
        });
        let closed = || Arc::new(Semaphore::new(0));
        Self { base: BaseContext::new(model), gate: closed(), begun: closed(), dug: Arc::default() }
    }

    /// Waits until a subagent digs that has not begun before.
    async fn digs_again(&self) {
        self.begun.forget_permits(usize::MAX);
        self.begun.acquire().await.unwrap().forget();
    }
}

/// A worker, until it is stopped or dropped.
struct Working(CancellationToken, JoinHandle<()>);

impl Working {
    fn start(store: &Arc<dyn RunStore>, mine: &Mine) -> Self {
        let (stop, mine) = (CancellationToken::new(), mine.clone());
        let worker = Worker::new(store.clone())
            .graph("foreman", Foreman::compile().erase(move |_| Ok(mine.clone())))
            .lease_duration(Duration::from_millis(300))
            .poll_interval(Duration::from_millis(20));
        Self(stop.clone(), tokio::spawn(worker.run_until(stop)))
    }

    async fn stop(self) {
        self.0.cancel();
        self.1.await.unwrap();
    }

    async fn die(self) {
        self.1.abort();
        assert!(self.1.await.is_err());
    }
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

/// Adds the run of a turn.
async fn start_turn(store: &Arc<dyn RunStore>, text: &str, durability: Durability) -> Row {
    let input = json!({ "messages": [serde_json::to_value(Message::user(text)).unwrap()] });
    let mut request = Request::input(input);
    request.durability = durability;
    store.create_run(NewRun::new("t", "foreman", request).create_thread()).await.unwrap()
}

async fn turn_storing(store: &Arc<dyn RunStore>, text: &str, durability: Durability) -> Vec<String> {
    let row = ended(store, &start_turn(store, text, durability).await).await;
    assert_eq!((row.status, &row.error), (RunStatus::Success, &None));
    let messages = row.output.unwrap()["values"]["messages"].take();
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
}

/// Returns the runs of subagents, newest first.
async fn runs_of_subagents(store: &Arc<dyn RunStore>) -> Vec<Row> {
    let mut runs = store.runs(RunQuery::default()).await.unwrap();
    runs.retain(|run| run.thread.starts_with("t/background/"));
    runs
}

/// Returns the run that continues the subagent.
async fn only_run_of_miner(store: &Arc<dyn RunStore>) -> Row {
    let mut runs = runs_of_subagents(store).await;
    assert_eq!(runs.len(), 1, "one run continues it");
    runs.remove(0)
}

/// The stores of a test, with an empty schema of Postgres if a server is given.
async fn stores() -> Vec<Arc<dyn RunStore>> {
    let mut stores: Vec<Arc<dyn RunStore>> =
        vec![Arc::new(MemoryRuns::new()), Arc::new(hier_sqlite::Sqlite::in_memory().await.unwrap())];
    if let Ok(url) = std::env::var("HIER_TEST_POSTGRES") {
        let schema = format!("detached_{}", uuid::Uuid::new_v4().simple());
        let postgres = hier_postgres::Postgres::options().schema(&schema).connect(&url).await.unwrap();
        postgres.migrate().await.unwrap();
        stores.push(Arc::new(postgres));
    }
    stores
}

/// The behaviour of a store when a worker adds the run of a subagent.
#[derive(Clone, Copy)]
enum Fault {
    /// Refuses the run.
    Refuses,
    /// Deletes the thread of the supervisor before.
    Deletes,
}

struct Faulty(Arc<dyn RunStore>, Fault);

impl SaverLayer for Faulty {
    type Inner = dyn RunStore;

    fn inner(&self) -> &dyn RunStore {
        &*self.0
    }
}

#[async_trait]
impl RunsLayer for Faulty {
    fn runs_store(&self) -> &dyn RunStore {
        &*self.0
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if matches!(change.action, ThreadAction::Add(..)) && change.thread.starts_with("t/background/") {
            match self.1 {
                Fault::Refuses => return Err(RunsError::Invalid("there is no room".to_owned())),
                Fault::Deletes => assert!(self.0.remove_thread("t").await?),
            }
        }
        self.0.run_backend().change(change).await
    }
}

/// The log of `tracing` on this thread.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn worker_continues_the_subagent_between_turns() {
    for store in stores().await {
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        assert_eq!(turn(&store, "Dig.").await.len(), 1);
        assert!(turn(&store, "And?").await[1].starts_with("`miner-1` is running"));
        let run = only_run_of_miner(&store).await;
        mine.gate.add_permits(1);
        let run = ended(&store, &run).await;
        assert_eq!((run.status, &run.error), (RunStatus::Success, &None));
        assert_eq!(run.output.unwrap()["values"], json!({ "status": "reported", "report": "done" }));
        assert_eq!(turn(&store, "And?").await[2], "`miner-1` reported.\ndone");
        assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
        only_run_of_miner(&store).await;
        let listed = store.search_threads(ThreadQuery::default()).await.unwrap();
        assert_eq!(listed.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["t"]);
        working.stop().await;
    }
}

#[tokio::test]
async fn subagent_continues_whenever_its_start_is_stored() {
    for store in stores().await {
        for durability in [Durability::Sync, Durability::Exit] {
            let mine = Mine::new();
            let workers = [Working::start(&store, &mine), Working::start(&store, &mine)];
            turn_storing(&store, "Dig.", durability).await;
            mine.gate.add_permits(1);
            let run = only_run_of_miner(&store).await;
            let run = ended(&store, &run).await;
            assert_eq!(run.output.unwrap()["values"]["status"], json!("reported"), "{durability:?}");
            assert!(store.remove_thread("t").await.unwrap());
            for working in workers {
                working.stop().await;
            }
        }
    }
}

#[tokio::test]
async fn another_worker_continues_the_subagent_of_a_dead_one() {
    for store in stores().await {
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        turn(&store, "Dig.").await;
        mine.digs_again().await;
        working.die().await;
        let working = Working::start(&store, &mine);
        mine.gate.add_permits(1);
        let run = only_run_of_miner(&store).await;
        assert_eq!(ended(&store, &run).await.status, RunStatus::Success);
        assert_eq!(turn(&store, "And?").await[1], "`miner-1` reported.\ndone");
        assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
        working.stop().await;
    }
}

#[tokio::test]
async fn deletion_of_the_thread_deletes_the_subagent_and_its_run() {
    for store in stores().await {
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        turn(&store, "Dig.").await;
        mine.digs_again().await;
        let run = only_run_of_miner(&store).await;
        assert!(store.remove_thread("t").await.unwrap());
        working.stop().await;
        assert!(store.runs(RunQuery::default()).await.unwrap().is_empty());
        let mut background = ThreadQuery::default();
        background.ids = Some(vec![run.thread.clone()]);
        assert!(store.search_threads(background).await.unwrap().is_empty());
        assert!(store.list(ListQuery::default()).await.unwrap().is_empty());
        assert_eq!(mine.dug.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn rollback_keeps_the_subagents_of_earlier_turns_running() {
    for store in stores().await {
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        turn(&store, "Dig.").await;
        let run = only_run_of_miner(&store).await;
        store.cancel_runs(&run.thread, &[run.id], Cancel::Interrupt).await.unwrap();
        assert_eq!(ended(&store, &run).await.status, RunStatus::Interrupted);
        // This turn continues the subagent itself.
        mine.begun.forget_permits(usize::MAX);
        let waits = start_turn(&store, "Wait.", Durability::Async).await;
        mine.begun.acquire().await.unwrap().forget();
        store.cancel_runs("t", &[waits.id], Cancel::Rollback).await.unwrap();
        while store.run(waits.id).await.unwrap().is_some_and(|run| run.status.is_live()) {
            tokio::task::yield_now().await;
        }
        mine.gate.add_permits(1);
        let [again, before] = &runs_of_subagents(&store).await[..] else { panic!("another run continues it") };
        assert_eq!(before.id, run.id);
        assert_eq!(ended(&store, again).await.status, RunStatus::Success);
        assert_eq!(turn(&store, "And?").await[1], "`miner-1` reported.\ndone");
        assert_eq!(mine.dug.load(Ordering::SeqCst), 1);
        working.stop().await;
    }
}

#[tokio::test]
async fn run_that_cannot_be_added_does_not_stop_the_turn_and_is_logged() {
    for store in stores().await {
        let logs = Logs::default();
        let written = logs.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || logs.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let store: Arc<dyn RunStore> = Arc::new(Layered(Faulty(store, Fault::Refuses)));
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        turn(&store, "Dig.").await;
        assert!(runs_of_subagents(&store).await.is_empty());
        let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let line = log.lines().find(|line| line.contains("failed to add a run")).expect("it is logged");
        let told =
            ["t/background/miner-1-", "foreman", "there is no room", "the next run of its supervisor: fix the error"];
        assert!(told.iter().all(|part| line.contains(part)), "{line}");
        mine.gate.add_permits(1);
        assert_eq!(turn(&store, "Wait.").await[1], "`miner-1` reported.\ndone");
        working.stop().await;
    }
}

#[tokio::test]
async fn thread_that_is_deleted_while_its_turn_ends_leaves_nothing() {
    for store in stores().await {
        let faulty: Arc<dyn RunStore> = Arc::new(Layered(Faulty(store.clone(), Fault::Deletes)));
        let mine = Mine::new();
        let working = Working::start(&faulty, &mine);
        let run = start_turn(&faulty, "Dig.", Durability::Async).await;
        while faulty.run(run.id).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        // The worker stores the end of the run that it has begun, or finds it deleted.
        working.stop().await;
        assert!(store.runs(RunQuery::default()).await.unwrap().is_empty());
        assert!(store.list(ListQuery::default()).await.unwrap().is_empty());
        assert_eq!(mine.dug.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn worker_continues_a_subagent_whose_question_is_overdue() {
    for store in stores().await {
        let mine = Mine::new();
        let working = Working::start(&store, &mine);
        turn(&store, "Buy.").await;
        let reported = async {
            loop {
                for run in runs_of_subagents(&store).await {
                    let output = ended(&store, &run).await.output;
                    if output.is_some_and(|output| output["values"]["status"] == "reported") {
                        return;
                    }
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), reported).await.expect("the default is the answer");
        assert_eq!(turn(&store, "And?").await[1], "`buyer-1` reported.\ndone");
        working.stop().await;
    }
}

#[tokio::test]
async fn callers_cannot_name_a_background_thread() {
    let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
    let new = NewRun::new("t/background/x", "foreman", Request::input(Value::Null)).create_thread();
    let refused = store.create_run(new).await.expect_err("it belongs to `t`");
    assert!(refused.to_string().contains("t/background/x"), "{refused}");
}
