//! Calls as tasks: the client polls the state of the call, and does not need a connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use hier_core::{CancellationToken, Question};
use rmcp::model::{CallToolResult, ErrorData, InputRequest, Task};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use super::calls::{CallOutcome, GraphCalls, PreparedCall, SWEEP, failed};
use super::elicitation;
use super::sessions::SessionOwner;

/// The time for which the result of a task is kept.
const KEPT: Duration = Duration::from_hours(24);

/// The tasks of all clients, by id.
#[derive(Default)]
pub(crate) struct ServedTasks(Mutex<HashMap<String, ServedTask>>);

struct ServedTask {
    owner: SessionOwner,
    /// Manages only this task, because a manager cannot remove a single task.
    manager: TaskManager,
    ended: Arc<OnceLock<Instant>>,
}

impl ServedTask {
    fn is_kept(&self) -> bool {
        self.ended.get().is_none_or(|ended| ended.elapsed() < KEPT)
    }
}

impl ServedTasks {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ServedTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a call as a task of this owner.
    pub(crate) fn start(
        &self,
        owner: SessionOwner,
        calls: Arc<GraphCalls>,
        call: PreparedCall,
        place: OwnedSemaphorePermit,
    ) -> Task {
        let (manager, ended) = (TaskManager::new(), Arc::<OnceLock<Instant>>::default());
        let end = ended.clone();
        let task = manager.spawn(TaskOptions::new().with_ttl_ms(None), move |task| {
            Box::pin(async move {
                let result = run(&calls, call, &task, place).await;
                let _ = end.set(Instant::now());
                result
            })
        });
        let mut tasks = self.lock();
        tasks.retain(|_, task| task.is_kept());
        tasks.insert(task.task_id.clone(), ServedTask { owner, manager, ended });
        task
    }

    /// Returns the manager of a task. To others than its owner, the task appears not to exist.
    pub(crate) fn manager(&self, task: &str, owner: &SessionOwner) -> TaskManager {
        let tasks = self.lock();
        let known = tasks.get(task).filter(|task| task.owner == *owner && task.is_kept());
        known.map(|task| task.manager.clone()).unwrap_or_default()
    }
}

/// Runs a call until it ends. While the call waits for answers, it does not count as a concurrent call.
async fn run(
    calls: &GraphCalls,
    call: PreparedCall,
    task: &TaskContext,
    place: OwnedSemaphorePermit,
) -> Result<CallToolResult, TaskExit> {
    let PreparedCall { served, thread, mut input, mut asked, .. } = call;
    let (mut place, mut used) = (Some(place), BTreeSet::new());
    loop {
        let cancel = CancellationToken::new();
        let mut running = pin!(calls.run_thread(&served, &thread, input, None, cancel.clone()));
        let outcome = tokio::select! {
            outcome = &mut running => outcome,
            () = task.cancelled() => {
                cancel.cancel();
                running.await;
                calls.delete_thread(&thread).await;
                return Err(TaskExit::Cancelled);
            }
        };
        let questions = match outcome {
            CallOutcome::Done(result) => return Ok(result),
            CallOutcome::Asks(questions) => questions,
        };
        drop(place.take());
        let late = || Err(Ok(failed(calls.unanswered())));
        let answered = if let Some(next) = std::mem::take(&mut asked).next(&questions, calls.lasts) {
            asked = next;
            timeout(asked.remaining(), ask(task, &questions, &mut used)).await.unwrap_or_else(|_| late())
        } else {
            late()
        };
        match answered {
            Ok(answered) => input = answered,
            Err(ended) => {
                calls.delete_thread(&thread).await;
                return ended;
            }
        }
        match wait_for_place(calls, &thread, task).await {
            Ok(free) => place = Some(free),
            Err(ended) => {
                calls.delete_thread(&thread).await;
                return Err(ended);
            }
        }
    }
}

/// Waits until the call may continue. Its thread does not expire meanwhile.
async fn wait_for_place(
    calls: &GraphCalls,
    thread: &str,
    task: &TaskContext,
) -> Result<OwnedSemaphorePermit, TaskExit> {
    let mut acquiring = pin!(calls.running.clone().acquire_owned());
    loop {
        tokio::select! {
            biased;
            () = task.cancelled() => return Err(TaskExit::Cancelled),
            free = &mut acquiring => {
                return free.map_err(|error| ErrorData::internal_error(error.to_string(), None).into());
            }
            () = sleep(SWEEP / 2) => calls.keep_thread(thread).await,
        }
    }
}

/// Asks the client until its answers have the right form. Returns the end of the task if there are no answers.
async fn ask(
    task: &TaskContext,
    questions: &[Question],
    used: &mut BTreeSet<String>,
) -> Result<hier_core::graph::DynInput, Result<CallToolResult, TaskExit>> {
    loop {
        let asked = elicitation::keys(questions).into_iter().map(|(key, question)| {
            let (own, request) =
                (unused(&key, used), serde_json::from_value::<InputRequest>(elicitation::request(question)));
            async move {
                let request = request.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                task.request_input(own, request).await.map(|answer| (key, answer))
            }
        });
        let asked: Vec<_> = asked.collect();
        let answered: Vec<Result<(String, Value), TaskExit>> = join_all(asked).await;
        let responses = answered.into_iter().collect::<Result<BTreeMap<_, _>, _>>().map_err(Err)?;
        if let Some(answers) = GraphCalls::answers(questions, &responses) {
            return Ok(answers);
        }
    }
}

/// Returns an unused key. A task may use each key only once, and a graph may ask again.
fn unused(key: &str, used: &mut BTreeSet<String>) -> String {
    let mut own = key.to_owned();
    let mut number = 2;
    while !used.insert(own.clone()) {
        own = format!("{key}-{number}");
        number += 1;
    }
    own
}
