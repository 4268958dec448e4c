//! Random sequences of runs of a worker that hang, are requeued, continue, or are rolled back.
//!
//! A rollback leaves no trace: the stored thread is as before, apart from messages that were sent meanwhile. No message and no signal is
//! lost or taken twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, Delivered, DueQuery, ListQuery, Saved};
use hier_core::graph::DynGraph;
use hier_core::runs::{
    Cancel, MemoryRuns, MultitaskStrategy, NewRun, NewThread, Request, RunQuery, RunStatus, RunStore, ThreadStatus,
};
use hier_core::{CancellationToken, Durability};
use hier_postgres::Postgres;
use hier_sqlite::Sqlite;
use hier_worker::Worker;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

/// Kinds of input that the second node waits for.
const KINDS: [&str; 4] = ["nothing", "answer", "signal", "step"];

mod stores;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    what: String,
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    Rolling<Case, Gates> = Graph { nodes: [first, second], edges: [START >> first >> second >> END], inbox: log }
}

/// Points at which runs hang: in the first node, or in the second once it has its input.
#[derive(Clone, Default)]
struct Gates(Arc<[(AtomicBool, AtomicUsize); 2]>);

impl Gates {
    async fn pass(&self, node: usize) {
        let (shut, entered) = &self.0[node];
        entered.fetch_add(1, Ordering::SeqCst);
        if shut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn shut(&self, node: usize, shut: bool) {
        self.0[node].0.store(shut, Ordering::SeqCst);
    }

    fn entered(&self, node: usize) -> usize {
        self.0[node].1.load(Ordering::SeqCst)
    }
}

async fn first(run: &Run<Gates>) -> CaseUpdate {
    run.context().pass(0).await;
    Case::update().log(["first".to_owned()])
}

async fn second(case: &Case, run: &Run<Gates>) -> hier_core::Result<CaseUpdate> {
    let said = match &*case.what {
        "answer" => run.interrupt::<String>(&"sure?").await?,
        "signal" => run.signal::<String>("go").await?,
        "step" => run.step("step", async || Ok("stepped".to_owned())).await?,
        _ => "second".to_owned(),
    };
    run.context().pass(1).await;
    Ok(Case::update().log([said]))
}

#[derive(Clone, Debug)]
enum Operation {
    /// A run of this kind, which hangs in a node.
    Run(usize, Option<usize>),
    /// Answers, or continues.
    GoOn(Option<usize>),
    Message,
    Signal,
    /// Sends the last message again.
    SendAgain,
    /// The worker of the run that hangs stops, and another one takes the run up.
    HandBack,
    /// The hanging run continues.
    LetGo,
    /// The run that hangs is rolled back; while no worker has it, if so.
    RollBack(bool),
}

fn operation() -> impl Strategy<Value = Operation> {
    let hangs = || prop_oneof![1 => Just(None), 1 => Just(Some(0)), 2 => Just(Some(1))];
    prop_oneof![
        4 => (0..KINDS.len(), hangs()).prop_map(|(kind, hangs)| Operation::Run(kind, hangs)),
        3 => hangs().prop_map(Operation::GoOn),
        2 => Just(Operation::Message),
        2 => Just(Operation::Signal),
        1 => Just(Operation::SendAgain),
        2 => Just(Operation::HandBack),
        1 => Just(Operation::LetGo),
        4 => any::<bool>().prop_map(Operation::RollBack),
    ]
}

/// Everything of a thread that a run may change.
#[derive(Debug, PartialEq)]
struct Stored {
    status: ThreadStatus,
    values: Option<Value>,
    interrupts: Map<String, Value>,
    checkpoints: Vec<Option<Saved>>,
    mail: Vec<Delivered>,
    is_due: bool,
}

struct Rolled {
    store: Arc<dyn RunStore>,
    thread: String,
    durability: Durability,
    gates: Gates,
    stop: CancellationToken,
    working: Option<JoinHandle<()>>,
    /// The hanging run with its node, and the state stored before it.
    hangs: Option<(Uuid, usize, Stored)>,
    sent: Vec<(Uuid, Option<&'static str>, String)>,
}

type Law = Result<(), String>;

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Rolled {
    async fn new(store: &Arc<dyn RunStore>, durability: Durability) -> Result<Self, String> {
        let thread = format!("rolling {}", Uuid::new_v4());
        store.create_thread(NewThread::new(&*thread)).await.map_err(error_text)?;
        let (gates, stop) = (Gates::default(), CancellationToken::new());
        let (hangs, sent, working) = (None, Vec::new(), None);
        let mut rolled = Self { store: store.clone(), thread, durability, gates, stop, working, hangs, sent };
        rolled.start();
        Ok(rolled)
    }

    fn graph(&self) -> impl DynGraph {
        let gates = self.gates.clone();
        Rolling::compile().erase(move |_| Ok(gates.clone()))
    }

    fn start(&mut self) {
        self.stop = CancellationToken::new();
        let worker =
            Worker::new(self.store.clone()).graph("rolling", self.graph()).poll_interval(Duration::from_millis(10));
        self.working = Some(tokio::spawn(worker.run_until(self.stop.clone())));
    }

    async fn stop(&mut self) -> Law {
        self.stop.cancel();
        match self.working.take() {
            Some(working) => working.await.map_err(error_text),
            None => Ok(()),
        }
    }

    async fn stored(&self) -> Result<Stored, String> {
        let row = self.store.thread(&self.thread).await.map_err(error_text)?.ok_or("the thread is gone")?;
        let mut checkpoints = Vec::new();
        let all = ListQuery { namespace: None, ..ListQuery::thread(&*self.thread) };
        for listed in self.store.list(all).await.map_err(error_text)? {
            let id = Some(listed.checkpoint.id);
            checkpoints.push(self.store.get(&self.thread, &listed.namespace, id).await.map_err(error_text)?);
        }
        let later = SystemTime::now() + Duration::from_hours(1);
        let due = self
            .store
            .inbox()
            .unwrap()
            .due(DueQuery::new(later, vec!["rolling".to_owned()], 10_000))
            .await
            .map_err(error_text)?;
        Ok(Stored {
            status: row.settled,
            values: row.values,
            interrupts: row.interrupts,
            mail: self.store.inbox().unwrap().messages(&self.thread).await.map_err(error_text)?,
            // A thread on which nothing has run is not checked.
            is_due: !checkpoints.is_empty() && due.iter().any(|due| *due.thread == *self.thread),
            checkpoints,
        })
    }

    async fn live(&self) -> Result<Option<hier_core::runs::Run>, String> {
        Ok(self.store.runs(RunQuery::thread(&*self.thread).live()).await.map_err(error_text)?.pop())
    }

    /// Waits until the thread has no more work.
    async fn rests(&self) -> Law {
        for _ in 0..2_000 {
            if self.live().await?.is_none() && !self.stored().await?.is_due {
                return Ok(());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Err(format!("the thread does not come to rest: {:?}", self.live().await?))
    }

    async fn apply(&mut self, operation: &Operation) -> Law {
        match (operation, self.hangs.is_some()) {
            (Operation::Run(kind, hangs), false) => {
                let input = json!({ "what": KINDS[*kind], "log": ["in"] });
                self.run(Request::input(input), *hangs).await
            }
            (Operation::GoOn(hangs), false) => {
                let stored = self.stored().await?;
                if stored.status != ThreadStatus::Interrupted {
                    return Ok(());
                }
                let is_asked = !stored.interrupts.is_empty() && stored.values.is_some_and(|it| it["what"] == "answer");
                let answer = Request::command(json!({ "resume": "yes", "update": { "log": ["updated"] } }));
                self.run(if is_asked { answer } else { Request::default() }, *hangs).await
            }
            (Operation::Message, _) => self.send(None).await,
            (Operation::Signal, _) => self.send(Some("go")).await,
            (Operation::SendAgain, _) => {
                let Some((id, signal, text)) = self.sent.last().cloned() else { return Ok(()) };
                let new = self.deliver(id, signal, &text).await?;
                if new { Err("earlier messages are new".to_owned()) } else { Ok(()) }
            }
            (Operation::HandBack, true) => {
                let node = self.hangs.as_ref().map_or(0, |(_, node, _)| *node);
                self.stop().await?;
                let entered = self.gates.entered(node);
                self.start();
                self.reaches(node, entered).await
            }
            (Operation::LetGo, true) => {
                let Some((run, node, _)) = self.hangs.take() else { return Ok(()) };
                // A node that waits does not look again.
                self.stop().await?;
                self.gates.shut(node, false);
                self.start();
                self.ends(run).await
            }
            (Operation::RollBack(idle), true) => self.roll_back(*idle).await,
            _ => Ok(()),
        }
    }

    async fn run(&mut self, mut request: Request, hangs: Option<usize>) -> Law {
        let before = self.stored().await?;
        request.durability = self.durability;
        let mut run = NewRun::new(&*self.thread, "rolling", request);
        run.multitask_strategy = MultitaskStrategy::Reject;
        let entered = hangs.map(|node| self.gates.entered(node));
        if let Some(node) = hangs {
            self.gates.shut(node, true);
        }
        let run = self.store.create_run(run).await.map_err(error_text)?.id;
        let (Some(node), Some(entered)) = (hangs, entered) else { return self.ends(run).await };
        for _ in 0..5_000 {
            if self.gates.entered(node) > entered {
                self.hangs = Some((run, node, before));
                return Ok(());
            }
            if self.live().await?.is_none() {
                // It has asked before.
                self.gates.shut(node, false);
                return self.ends(run).await;
            }
            sleep(Duration::from_millis(2)).await;
        }
        Err(format!("a run does not begin: {:?}", self.live().await?))
    }

    async fn reaches(&self, node: usize, entered: usize) -> Law {
        for _ in 0..5_000 {
            if self.gates.entered(node) > entered {
                return Ok(());
            }
            sleep(Duration::from_millis(2)).await;
        }
        Err(format!("a requeued run does not continue: {:?}", self.live().await?))
    }

    async fn ends(&self, run: Uuid) -> Law {
        self.rests().await?;
        let ended = self.store.run(run).await.map_err(error_text)?.ok_or("a run is gone")?;
        if ended.status == RunStatus::Success { Ok(()) } else { Err(format!("a run has not ended well: {ended:?}")) }
    }

    async fn send(&mut self, signal: Option<&'static str>) -> Law {
        let (id, text) = (Uuid::new_v4(), format!("sent {}", self.sent.len()));
        let before = self.store.inbox().unwrap().messages(&self.thread).await.map_err(error_text)?;
        self.deliver(id, signal, &text).await?;
        self.sent.push((id, signal, text));
        let Some((_, _, stored)) = &mut self.hangs else { return self.rests().await };
        // It did not exist before the run, and exists after the rollback.
        let after = self.store.inbox().unwrap().messages(&self.thread).await.map_err(error_text)?;
        stored.mail.extend(after.into_iter().filter(|posted| !before.contains(posted)));
        Ok(())
    }

    async fn deliver(&self, id: Uuid, signal: Option<&str>, text: &str) -> Result<bool, String> {
        let saver: Arc<dyn Checkpointer> = self.store.clone().as_checkpointer();
        self.graph().send(saver, &self.thread, id, signal, &json!(text)).await.map_err(error_text)
    }

    /// Waits until a run that is rolled back is deleted.
    async fn is_gone(&self, run: Uuid) -> Law {
        for _ in 0..5_000 {
            if self.store.run(run).await.map_err(error_text)?.is_none() {
                return Ok(());
            }
            sleep(Duration::from_millis(2)).await;
        }
        Err(format!("a run is not rolled back: {:?}", self.live().await?))
    }

    async fn roll_back(&mut self, idle: bool) -> Law {
        let Some((run, node, before)) = self.hangs.take() else { return Ok(()) };
        // The node that hangs does not look again. A run that a signal wakes after the rollback passes.
        self.gates.shut(node, false);
        if idle {
            self.stop().await?;
        }
        self.store.cancel_runs(&self.thread, &[run], Cancel::Rollback).await.map_err(error_text)?;
        if idle {
            self.start();
        }
        self.is_gone(run).await?;
        self.rests().await?;
        let waits = before.values.as_ref().is_some_and(|values| values["what"] == "signal")
            && before.status == ThreadStatus::Interrupted;
        let wakes = before.mail.iter().any(|posted| posted.message.signal.is_some());
        // It has continued with the restored messages.
        if waits && wakes {
            return Ok(());
        }
        let after = self.stored().await?;
        let is_undone = after == before;
        is_undone.then_some(()).ok_or_else(|| format!("a rollback has left\n {after:#?}\n instead of\n {before:#?}"))
    }

    /// Each message and signal is in the log or in the mailbox, once.
    async fn look(&self) -> Law {
        if self.hangs.is_some() {
            return Ok(());
        }
        let stored = self.stored().await?;
        let log = stored.values.map(|values| values["log"].clone()).unwrap_or_default();
        let log: Vec<&str> = log.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (id, _, text) in &self.sent {
            let taken = log.iter().filter(|line| *line == text).count();
            let waits = stored.mail.iter().filter(|posted| posted.message.id == *id).count();
            if taken + waits != 1 {
                return Err(format!("`{text}` is {taken} times in the log and {waits} times in the mailbox"));
            }
        }
        Ok(())
    }

    async fn all(mut self, operations: &[Operation]) -> Law {
        let done = self.operate(operations).await;
        self.stop().await?;
        // The next sequence has the same store: its worker would claim a run that is left.
        self.store.delete_thread(&self.thread).await.map_err(error_text)?;
        done
    }

    async fn operate(&mut self, operations: &[Operation]) -> Law {
        // At the end, the run that hangs continues.
        for (number, operation) in operations.iter().chain([&Operation::LetGo]).enumerate() {
            let mut done = self.apply(operation).await;
            if done.is_ok() {
                done = self.look().await;
            }
            done.map_err(|broken| format!("operation {number}, {operation:?}: {broken}"))?;
        }
        Ok(())
    }
}
