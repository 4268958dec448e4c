//! Workers on the store: graphs are run, and whatever happens to a worker, each run ends once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::checkpoint::{Claim, ListQuery, WhenRunning};
use hier_core::graph::{CompiledGraph, DynGraph, DynUpdates, GraphBuilder, Task};
use hier_core::prelude::{END, NodeError, START};
use hier_core::runs::{
    Cancel, EventQuery, Keeps, MultitaskStrategy, Request, Run, RunLog, RunStatus, ThreadIndex, ThreadQuery,
    ThreadStatus, event_mode,
};
use hier_core::state::{Builtin, DynState, DynUpdate, Schema};
use hier_core::worker::Worker;
use hier_core::{CancellationToken, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::kit::{
    Outcome, SHORT, add, cases, claim_for, ended, events, has_status, holds, is, new, run, same, some, strategy, thread,
};
use super::{Failure, Subject};

cases!("work":
    a_run_ends_with_its_values,
    a_question_is_answered_by_the_next_run,
    a_failed_run_says_why,
    a_bad_request_fails_and_leaves_the_thread,
    several_workers_do_each_run_once,
    a_run_that_is_cancelled_stops,
    a_run_that_is_rolled_back_leaves_what_was_before,
    a_run_that_takes_too_long_ends,
    a_worker_that_stops_hands_its_runs_back,
    a_worker_that_dies_is_replaced,
    an_input_that_was_stored_is_not_given_again,
    a_poison_run_ends,
    nobody_needs_to_listen,
    a_joined_stream_is_the_stream,
    events_of_a_step_come_with_its_checkpoint,
    a_change_from_outside_is_stored_with_its_index,
);

/// How often nodes were run.
#[derive(Default)]
struct Counts {
    first: AtomicUsize,
    second: AtomicUsize,
    /// Whether `first` waits for ever.
    hangs: std::sync::atomic::AtomicBool,
}

/// Two nodes that write down their names. What the channel `do` says happens in the second.
fn desk(counts: &Arc<Counts>) -> Result<CompiledGraph<DynState>, Failure> {
    let schema = Schema::new().reduced("log", Builtin::Append).last("do").last("answer");
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("desk", schema);
    let own = counts.clone();
    graph.node("first", move |task: Task<DynState>| {
        let own = own.clone();
        async move {
            own.first.fetch_add(1, Ordering::SeqCst);
            task.state().update(json!({ "log": ["first"] }))
        }
    });
    let own = counts.clone();
    graph.node("second", move |task: Task<DynState>| {
        let own = own.clone();
        async move { second(&task, &own).await }
    });
    graph.edge(START, "first");
    graph.edge("first", "second");
    graph.edge("second", END);
    graph.compile().map_err(Failure::unexpected)
}

async fn second(task: &Task<DynState>, counts: &Counts) -> Result<DynUpdate, NodeError> {
    counts.second.fetch_add(1, Ordering::SeqCst);
    if counts.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let what = task.state().get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
    match &*what {
        "ask" => {
            let answer: Value = task.run().interrupt(&"sure?").await?;
            return task.state().update(json!({ "answer": answer, "log": ["answered"] }));
        }
        "fail" => return Err(NodeError::permanent("boom")),
        "panic" => panic!("as asked"),
        "tell" => {
            for number in 0..500 {
                task.run().emit(json!({ "number": number }));
            }
        }
        _ => {}
    }
    task.state().update(json!({ "log": ["second"] }))
}

/// A worker in the background, and how it is stopped.
struct Working {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    fn start(store: &Subject, counts: &Arc<Counts>, lease: Duration) -> Result<Self, Failure> {
        let graph: Arc<dyn DynGraph> = Arc::new(desk(counts)?.erase(|_| Ok(())));
        let worker =
            Worker::new(store.clone()).shared_graph("desk", graph).lease(lease).poll(Duration::from_millis(20));
        let stop = CancellationToken::new();
        Ok(Self { task: tokio::spawn(worker.attempts(2).run_until(stop.clone())), stop })
    }

    async fn stop(self) -> Outcome {
        self.stop.cancel();
        self.task.await.map_err(Failure::unexpected)
    }

    /// As if its process were killed: it does nothing any more.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

const LEASE: Duration = Duration::from_secs(30);

fn doing(thread: &str, what: &str) -> hier_core::runs::NewRun {
    let mut run = new(thread);
    run.request.input = json!({ "log": ["in"], "do": what });
    run.request.stream_modes = ["values", "updates", "custom"].map(str::to_owned).to_vec();
    run
}

/// Waits until the second node has begun so often.
async fn second_began(counts: &Counts, times: usize) -> Outcome {
    while counts.second.load(Ordering::SeqCst) < times {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Waits until the run's input is stored.
async fn has_entered(store: &Subject, id: uuid::Uuid) -> Outcome {
    while !run(store, id).await?.entered {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn log(run: &Run) -> Value {
    run.output.as_ref().map(|output| output["values"]["log"].clone()).unwrap_or_default()
}

async fn a_run_ends_with_its_values(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("its values", &log(&ended), &json!(["in", "first", "second"]))?;
    let row = thread(&store, "t").await?;
    same("the thread", &row.status, &ThreadStatus::Idle)?;
    same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first", "second"])))?;
    let listed = store.list(ListQuery::thread("t")).await?;
    holds("it has its checkpoints", listed.len() >= 3)?;
    let of_run = Value::from(made.id.to_string());
    holds("they name the run", listed.iter().all(|it| it.checkpoint.metadata.get("run_id") == Some(&of_run)))?;
    working.stop().await
}

async fn a_question_is_answered_by_the_next_run(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let asks = ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    same("the run", &asks.status, &RunStatus::Success)?;
    let row = thread(&store, "t").await?;
    same("the thread", &row.status, &ThreadStatus::Interrupted)?;
    let asked = some("a question", row.interrupts.values().next().cloned())?;
    same("it", &asked[0]["value"], &json!("sure?"))?;
    same("the run's", &asks.output.map(|output| output["interrupts"][0]["id"].clone()), &Some(asked[0]["id"].clone()))?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    let answered = ended(&store, store.create_run(answer.clone()).await?.id).await?;
    same("the log", &log(&answered), &json!(["in", "first", "answered"]))?;
    is(&store, "t", ThreadStatus::Idle).await?;
    // Clicked twice.
    let again = ended(&store, store.create_run(answer).await?.id).await?;
    same("the second answer", &again.status, &RunStatus::Error)?;
    working.stop().await
}

async fn a_failed_run_says_why(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    for what in ["fail", "panic"] {
        let failed = ended(&store, store.create_run(doing(what, what)).await?.id).await?;
        same("the run", &failed.status, &RunStatus::Error)?;
        let error = some("its error", failed.error)?;
        same("its kind", &&*error.error, &"NodeError")?;
        holds("it says why", error.message.contains(if what == "fail" { "boom" } else { "as asked" }))?;
        let row = thread(&store, what).await?;
        same("the thread", &(row.status, row.error.is_some()), &(ThreadStatus::Error, true))?;
        same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first"])))?;
        let last = some("events", events(&store, what, 0).await?.pop())?;
        same("the last event", &&*last.event.mode, &event_mode::END)?;
        same("the error that it tells", &last.event.data["error"]["error"], &json!("NodeError"))?;
    }
    working.stop().await
}

async fn a_bad_request_fails_and_leaves_the_thread(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let requests = [
        Request::input(json!({ "lgo": [] })),
        Request::input(json!(7)),
        Request::command(json!({ "goto": "nowhere" })),
        Request::command(json!(7)),
        Request::default(),
    ];
    for request in requests {
        let mut bad = new("t");
        bad.request = request;
        let ended = ended(&store, store.create_run(bad).await?.id).await?;
        same("the run", &ended.status, &RunStatus::Error)?;
    }
    is(&store, "t", ThreadStatus::Error).await?;
    same("what is stored", &store.get("t", "", None).await?, &None)?;
    ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    is(&store, "t", ThreadStatus::Idle).await?;
    working.stop().await
}

async fn several_workers_do_each_run_once(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let mut made = Vec::new();
    for number in 0..40 {
        made.push(add(&store, &format!("t{}", number % 7)).await?.id);
    }
    let working = [0, 1, 2].map(|_| Working::start(&store, &counts, LEASE));
    for id in made {
        same("the run", &ended(&store, id).await?.status, &RunStatus::Success)?;
    }
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &40)?;
    let log = thread(&store, "t0").await?.values.map(|values| values["log"].as_array().map(Vec::len));
    same("the thread's log", &log, &Some(Some(18)))?;
    for working in working {
        working?.stop().await?;
    }
    Ok(())
}

async fn a_run_that_is_cancelled_stops(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    second_began(&counts, 1).await?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    same("the run", &ended(&store, made.id).await?.status, &RunStatus::Interrupted)?;
    let row = thread(&store, "t").await?;
    same("the thread, which can go on", &row.status, &ThreadStatus::Interrupted)?;
    same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first"])))?;
    counts.hangs.store(false, Ordering::SeqCst);
    let mut goes_on = new("t");
    goes_on.request = Request::default();
    let went_on = ended(&store, store.create_run(goes_on).await?.id).await?;
    same("the log", &log(&went_on), &json!(["in", "first", "second"]))?;
    working.stop().await
}

async fn a_run_that_is_rolled_back_leaves_what_was_before(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    let before = thread(&store, "t").await?.values;
    counts.hangs.store(true, Ordering::SeqCst);
    let hangs = store.create_run(doing("t", "")).await?;
    second_began(&counts, 2).await?;
    counts.hangs.store(false, Ordering::SeqCst);
    let mut next = strategy("t", MultitaskStrategy::Rollback);
    next.request.input = json!({ "log": ["again"] });
    let next = ended(&store, store.create_run(next).await?.id).await?;
    same("the run", &store.run(hangs.id).await?, &None)?;
    same("the log", &log(&next), &json!(["in", "first", "second", "again", "first", "second"]))?;
    holds("there was something before", before.is_some())?;
    working.stop().await
}

async fn a_run_that_takes_too_long_ends(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let mut slow = doing("t", "");
    slow.request.timeout_ms = Some(100);
    let slow = ended(&store, store.create_run(slow).await?.id).await?;
    same("the run", &slow.status, &RunStatus::Timeout)?;
    is(&store, "t", ThreadStatus::Error).await?;
    working.stop().await
}

async fn a_worker_that_stops_hands_its_runs_back(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    second_began(&counts, 1).await?;
    working.stop().await?;
    has_status(&store, made.id, RunStatus::Pending).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    same("the attempts that count", &ended.attempts, &1)?;
    working.stop().await
}

/// Aegra 476: what a dead worker had begun stayed where it was.
async fn a_worker_that_dies_is_replaced(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let mut asked = doing("t", "");
    asked.request.durability = Some("sync".to_owned());
    let made = store.create_run(asked).await?;
    second_began(&counts, 1).await?;
    dead.kill().await;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.attempts), &(RunStatus::Success, 2))?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    working.stop().await
}

async fn an_input_that_was_stored_is_not_given_again(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    working.stop().await?;
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes", "update": { "log": ["updated"] } }));
    let made = store.create_run(answer).await?;
    second_began(&counts, 2).await?;
    has_entered(&store, made.id).await?;
    dead.kill().await;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "updated", "answered"]))?;
    working.stop().await
}

/// Aegra 473: a run that kills its workers is not begun for ever.
async fn a_poison_run_ends(store: Subject) -> Outcome {
    let made = add(&store, "t").await?;
    for _ in 0..2 {
        some("the run", claim_for(&store, SHORT).await?)?;
        sleep(SHORT * 2).await;
    }
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &ended.status, &RunStatus::Error)?;
    same("why", &ended.error.map(|error| error.error), &Some("AttemptsExceeded".to_owned()))?;
    is(&store, "t", ThreadStatus::Error).await?;
    same("how often it was begun", &counts.first.load(Ordering::SeqCst), &0)?;
    working.stop().await
}

/// deer-flow 1403: the client was gone, and the run waited for somebody to take its events.
async fn nobody_needs_to_listen(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "tell")).await?;
    let gone = store.bell().thread("t");
    drop(gone);
    same("the run", &ended(&store, made.id).await?.status, &RunStatus::Success)?;
    let told = events(&store, "t", 0).await?;
    same("what it told", &told.iter().filter(|row| row.event.mode == "custom").count(), &500)?;
    working.stop().await
}

/// LG 7778, JS 2330: whoever joined later missed events.
async fn a_joined_stream_is_the_stream(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "tell")).await?;
    let (mut bell, mut live) = (store.bell().thread("t"), Vec::new());
    loop {
        let after = live.last().map_or(0, |row: &hier_core::runs::EventRow| row.number);
        live.extend(store.events(EventQuery::after("t", after).run(made.id).limit(7)).await?.events);
        if live.last().is_some_and(|row| row.event.mode == event_mode::END) {
            break;
        }
        let _ = tokio::time::timeout(Duration::from_millis(20), bell.rung()).await;
    }
    // The end is told when the row has ended, not before.
    same("the run", &run(&store, made.id).await?.status, &RunStatus::Success)?;
    same("joined afterwards", &events(&store, "t", 0).await?, &live)?;
    let numbers: Vec<_> =
        live.iter().filter(|row| row.event.mode == "custom").map(|row| row.event.data["number"].clone()).collect();
    same("what was told", &numbers, &(0..500).map(Value::from).collect())?;
    let modes: Vec<_> = live.iter().filter(|row| row.event.mode != "custom").map(|row| &*row.event.mode).collect();
    same("the rest", &modes, &vec!["start", "values", "updates", "values", "updates", "values", "end"])?;
    working.stop().await
}

async fn events_of_a_step_come_with_its_checkpoint(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let mut asked = doing("t", "");
    asked.request.durability = Some("sync".to_owned());
    let made = store.create_run(asked).await?;
    second_began(&counts, 1).await?;
    let told = events(&store, "t", 0).await?;
    let values: Vec<_> = told.iter().filter(|row| row.event.mode == "values").collect();
    same("the values", &values.last().map(|row| row.event.data["log"].clone()), &Some(json!(["in", "first"])))?;
    let latest = some("a checkpoint", store.get("t", "", None).await?)?;
    same("the step of the latest checkpoint", &latest.checkpoint.step, &1)?;
    same("how many are found", &store.count_threads(ThreadQuery::default()).await?, &1)?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    ended(&store, made.id).await?;
    working.stop().await
}

/// A change from outside is there with what the index says of it, or not at all; and while it is made it can be read.
async fn a_change_from_outside_is_stored_with_its_index(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    working.stop().await?;
    let graph = desk(&counts)?.erase(|_| Ok(()));
    let lease = store.acquire("t", Claim { when_running: WhenRunning::Reject, ..Claim::default() }).await?;
    let log = Arc::new(RunLog::new(store.clone(), lease.clone(), None, Keeps::WithCommits));
    let update = |text: &str| DynUpdates::values(json!({ "log": [text], "answer": text })).as_node("first");
    let steps = vec![vec![update("a")], vec![update("b")]];
    graph.update_state(log.clone(), Config::thread("t"), steps).await.map_err(Failure::unexpected)?;
    let read = graph.state(log.clone(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is read", &read.values["log"], &json!(["in", "first", "second", "a", "b"]))?;
    same("the last", &read.values["answer"], &json!("b"))?;
    same("what runs next", &read.next, &vec!["second".to_owned()])?;
    // Nothing of it is there yet.
    let stored =
        graph.state(store.clone().as_checkpointer(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is stored", &stored.values["log"], &json!(["in", "first", "second"]))?;
    let index = ThreadIndex::new(ThreadStatus::Interrupted).values(read.values.clone());
    log.settle(Some(index), None).await?;
    store.release(&lease).await?;
    let stored =
        graph.state(store.clone().as_checkpointer(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is stored", &(&stored.values, stored.checkpoint), &(&read.values, read.checkpoint))?;
    let row = thread(&store, "t").await?;
    same("the index", &(row.status, row.values.as_ref()), &(ThreadStatus::Interrupted, Some(&read.values)))
}
