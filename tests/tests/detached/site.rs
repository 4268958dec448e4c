//! A store with workers, and the agents that they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_core::runs::{MemoryRuns, NewRun, Request, Run as Row, RunQuery, RunStatus, RunStore};
use hier_core::{CancellationToken, Durability, Result};
use hier_testkit::ScriptedModel;
use hier_worker::Worker;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Desk {
    #[state(flatten)]
    pub(crate) base: BaseState,
}

/// The context: a gate in front of the work, and counters of the work.
#[derive(Clone)]
pub(crate) struct Mine {
    base: BaseContext,
    pub(crate) gate: Arc<Semaphore>,
    /// The number of tools that are working or wait at the gate.
    working: watch::Sender<usize>,
    dug: Arc<AtomicUsize>,
}

impl AsRef<BaseContext> for Mine {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Leads.
    pub(crate) Foreman<Desk, Mine> = Agent {
        subagents: [Miner { detached: true }, Buyer { detached: true }, Trader { detached: true }],
    }
}

graph! {
    /// Digs.
    Miner<Desk, Mine> = Agent { tools: [dig] }
}

graph! {
    /// Buys.
    Buyer<Desk, Mine> = Agent { tools: [buy] }
}

graph! {
    /// Buys and digs at once.
    Trader<Desk, Mine> = Agent { tools: [buy, dig] }
}

/// A tool that works, until it ends or is aborted.
struct Working(watch::Sender<usize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.send_modify(|working| *working -= 1);
    }
}

/// Asks for a price, for a moment, behind the gate.
#[tool]
async fn buy(run: &Run<Mine>) -> Result<String> {
    let _working = run.context().begin().await?;
    let due = SystemTime::now() + Duration::from_millis(200);
    run.interrupt::<String>(&"How much?").until(due, "dug".to_owned()).await
}

/// Digs, behind the gate.
#[tool]
async fn dig(run: &Run<Mine>) -> Result<String> {
    let _working = run.context().begin().await?;
    run.context().dug.fetch_add(1, Ordering::SeqCst);
    Ok("dug".to_owned())
}

impl Mine {
    /// The foreman does what the user says. Subagents call each of their tools once.
    pub(crate) fn new() -> Self {
        let model = ScriptedModel::reacting(|request| {
            let has = |name: &str| request.tools.iter().any(|tool| tool.name == name);
            let last = request.messages.last().expect("a message");
            match (has("check_subagents"), last.text().as_str()) {
                (true, "Dig.") => Message::call("miner", json!({ "task": "ore" })),
                (true, "Buy.") => Message::call("buyer", json!({ "task": "ore" })),
                (true, "Trade.") => Message::call("trader", json!({ "task": "ore" })),
                (true, "And?") => Message::call("check_subagents", json!({})),
                (true, "Wait.") => Message::call("wait_for_subagents", json!({})),
                (true, "Stop.") => Message::call("cancel_subagent", json!({ "handle": "buyer-1" })),
                (false, text) if text != "dug" => {
                    let tools = ["buy", "dig"].into_iter().filter(|name| has(name));
                    Message::calls("", tools.map(|name| ToolCall::new(name, json!({}))))
                }
                _ => Message::assistant("done"),
            }
        });
        let (gate, working) = (Arc::new(Semaphore::new(0)), watch::Sender::new(0));
        Self { base: BaseContext::new(model), gate, working, dug: Arc::default() }
    }

    async fn begin(&self) -> Result<Working> {
        self.working.send_modify(|working| *working += 1);
        let working = Working(self.working.clone());
        self.gate.acquire().await?.forget();
        Ok(working)
    }

    /// Waits until this number of tools work or wait at the gate.
    pub(crate) async fn works(&self, tools: usize) {
        self.working.subscribe().wait_for(|working| *working == tools).await.unwrap();
    }

    /// Returns the number of finished digs.
    pub(crate) fn dug(&self) -> usize {
        self.dug.load(Ordering::SeqCst)
    }
}

/// A store and its workers, which share the context.
pub(crate) struct Site {
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) mine: Mine,
    workers: Vec<(CancellationToken, JoinHandle<()>)>,
}

/// Calls the test with each store and a worker.
pub(crate) async fn on_each_store(test: impl AsyncFn(&mut Site)) {
    on_each(|store| store, test).await;
}

/// As above, but with these changed stores.
pub(crate) async fn on_each(change: impl Fn(Arc<dyn RunStore>) -> Arc<dyn RunStore>, test: impl AsyncFn(&mut Site)) {
    for store in stores().await {
        let mut site = Site { store: change(store), mine: Mine::new(), workers: Vec::new() };
        site.start_worker(|worker| worker);
        test(&mut site).await;
        site.stop_workers().await;
    }
}

/// Returns empty stores. There is one in Postgres if a server is given.
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

impl Site {
    pub(crate) fn start_worker(&mut self, options: impl FnOnce(Worker) -> Worker) {
        let (stop, mine) = (CancellationToken::new(), self.mine.clone());
        let worker = Worker::new(self.store.clone())
            .graph("foreman", Foreman::compile().erase(move |_| Ok(mine.clone())))
            .lease_duration(Duration::from_millis(300))
            .poll_interval(Duration::from_millis(20));
        self.workers.push((stop.clone(), tokio::spawn(options(worker).run_until(stop))));
    }

    /// Stops the workers in order.
    pub(crate) async fn stop_workers(&mut self) {
        for (stop, worker) in self.workers.drain(..) {
            stop.cancel();
            worker.await.unwrap();
        }
    }

    /// Aborts the last worker.
    pub(crate) async fn kill_worker(&mut self) {
        let (_, worker) = self.workers.pop().expect("a worker");
        worker.abort();
        assert!(worker.await.is_err());
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&self, run: &Row) -> Row {
        let mut changes = self.store.notifier().thread(&run.thread);
        loop {
            let row = self.store.run(run.id).await.unwrap().expect("the run");
            if !row.status.is_live() {
                return row;
            }
            changes.changed().await;
        }
    }

    /// Adds the run of a turn.
    pub(crate) async fn start_turn(&self, text: &str, durability: Durability) -> Row {
        let input = json!({ "messages": [serde_json::to_value(Message::user(text)).unwrap()] });
        let mut request = Request::input(input);
        request.durability = durability;
        self.store.create_run(NewRun::new("t", "foreman", request).create_thread()).await.unwrap()
    }

    /// Runs a turn, and returns the results of tools in the conversation.
    pub(crate) async fn turn(&self, text: &str) -> Vec<String> {
        self.turn_storing(text, Durability::Async).await
    }

    pub(crate) async fn turn_storing(&self, text: &str, durability: Durability) -> Vec<String> {
        let row = self.ended(&self.start_turn(text, durability).await).await;
        assert_eq!((row.status, &row.error), (RunStatus::Success, &None));
        let messages = row.output.unwrap()["values"]["messages"].take();
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
        messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
    }

    /// Returns the runs of subagents, newest first.
    pub(crate) async fn runs_of_subagents(&self) -> Vec<Row> {
        let mut runs = self.store.runs(RunQuery::default()).await.unwrap();
        runs.retain(|run| run.thread.starts_with("t/background/"));
        runs
    }

    /// Returns the run that continues the subagent.
    pub(crate) async fn only_run_of_subagent(&self) -> Row {
        let mut runs = self.runs_of_subagents().await;
        assert_eq!(runs.len(), 1, "one run continues it");
        runs.remove(0)
    }
}
