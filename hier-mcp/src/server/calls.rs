//! Tool calls of clients. Each call is a run, which may ask questions and continue with the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::{Checkpointer, Claim, Sweeper, WhenRunning, sweep_every};
use hier_core::graph::{DynCommand, DynEventSink, DynInput, DynRun};
use hier_core::{CancellationToken, Config, Outcome, Question, RunError, StreamMode};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::elicitation;
use super::graph_tool::GraphTool;
use super::sessions::SessionOwner;
use crate::seal::SealKey;

pub(crate) struct GraphCalls {
    pub(crate) graphs: BTreeMap<String, GraphTool>,
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) key: SealKey,
    pub(crate) lasts: Duration,
    pub(crate) running: Arc<Semaphore>,
    /// `None` before the first request of a server that was created outside a runtime.
    sweeper: Mutex<Option<Sweeper>>,
}

/// The interval at which expired threads are deleted.
pub(crate) const SWEEP: Duration = Duration::from_hours(1);

/// The state of a call after a run.
pub(crate) enum CallOutcome {
    Done(CallToolResult),
    Asks(Vec<Question>),
}

/// A call that is ready to run.
pub(crate) struct PreparedCall {
    pub(crate) tool: String,
    pub(crate) served: GraphTool,
    pub(crate) thread: String,
    pub(crate) input: DynInput,
    /// Answers that the client sent before the graph asked a question.
    pub(crate) early: Option<BTreeMap<String, Value>>,
    /// The questions that the input answers.
    pub(crate) asked: AskedQuestions,
}

pub(crate) struct PendingCall {
    pub(crate) thread: String,
    pub(crate) questions: Vec<Question>,
    pub(crate) asked: AskedQuestions,
}

/// The questions that a client was asked last, and the deadline of its answers.
#[derive(Default)]
pub(crate) struct AskedQuestions {
    ids: Vec<String>,
    /// `None` if the deadline is too far in the future for the clock.
    until: Option<Instant>,
    /// The state of these questions that the client has sent.
    state: Option<String>,
}

impl AskedQuestions {
    /// Returns the next questions of the same call. If an answer had the wrong type, its question is among them again
    /// and keeps its deadline. All of them must then be answered by this deadline, because the client sends their
    /// answers together. Returns `None` if the deadline has passed during the run.
    pub(crate) fn next(self, questions: &[Question], lasts: Duration) -> Option<Self> {
        let ids = ids(questions);
        if !ids.iter().any(|id| self.ids.contains(id)) {
            return Some(Self { ids, until: Instant::now().checked_add(lasts), state: None });
        }
        let state = self.state.filter(|_| ids == self.ids);
        let next = Self { ids, until: self.until, state };
        (!next.remaining().is_zero()).then_some(next)
    }

    /// Returns the time that is left for the answers.
    pub(crate) fn remaining(&self) -> Duration {
        self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
    }
}

impl GraphCalls {
    pub(crate) fn new(
        graphs: BTreeMap<String, GraphTool>,
        saver: Arc<dyn Checkpointer>,
        key: SealKey,
        lasts: Duration,
        most: usize,
    ) -> Self {
        let running = Arc::new(Semaphore::new(most));
        Self { graphs, saver, key, lasts, running, sweeper: Mutex::default() }
    }

    /// Deletes expired threads from now on, such as those of an earlier process. Needs a tokio runtime. If the runtime
    /// of an earlier call has ended, the deletion continues in this runtime.
    pub(crate) fn sweep(&self) {
        let mut sweeper = self.sweeper.lock().unwrap_or_else(PoisonError::into_inner);
        if sweeper.as_ref().is_none_or(Sweeper::has_ended) {
            *sweeper = Some(sweep_every(self.saver.clone(), SWEEP));
        }
    }

    /// Returns a permit for one more call, or `None` at the limit.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.running.clone().try_acquire_owned().ok()
    }

    /// Creates the thread and the input of a call. Fails if the arguments are invalid.
    pub(crate) fn prepare(served: &GraphTool, arguments: Option<JsonObject>) -> Result<(String, DynInput), String> {
        let input = served.input(arguments)?;
        Ok((format!("mcp-{}", uuid::Uuid::new_v4()), input))
    }

    /// Runs a thread until it ends or asks. Deletes the thread of a call that has ended.
    ///
    /// Cancel the run with the token. Dropping the future would leave the thread in the saver, and the work of the
    /// graph's nodes outside the process, as if another process could resume the run.
    pub(crate) async fn run_thread(
        &self,
        served: &GraphTool,
        thread: &str,
        input: DynInput,
        event_sink: Option<DynEventSink>,
        cancel: CancellationToken,
    ) -> CallOutcome {
        let declined = declined(&input);
        // The thread of an unanswered question expires.
        let lives = self.lasts.saturating_add(SWEEP);
        let mut run = DynRun::new(input, Config::new().thread(thread).time_to_live(lives).cancel(cancel));
        run.saver = Some(self.saver.clone());
        if event_sink.is_some() {
            run.modes = vec![StreamMode::Custom, StreamMode::Updates];
            run.event_sink = event_sink;
        }
        let result = match served.graph.run(run).await {
            Ok(Outcome::Finished(state)) => served.result(state),
            Ok(Outcome::Interrupted(asked)) => match open_questions(asked.questions) {
                Ok(questions) => return CallOutcome::Asks(questions),
                Err(why) => failed(why),
            },
            Ok(Outcome::Stopped(stopped)) => failed(format!("the graph stopped: {}", stopped.reason)),
            Err(error) => match self.still_open(served, thread).await {
                // The client would decline the question each time.
                Ok(questions) if questions.iter().any(|question| declined.contains(&question.id)) => {
                    failed(format!("the client declined a question that needs an answer: {error}"))
                }
                // A refused answer leaves its question open.
                Ok(questions) if !questions.is_empty() => return CallOutcome::Asks(questions),
                Ok(_) if !matches!(error, RunError::Saver { .. }) => failed(error.to_string()),
                // Another call may be running the thread.
                _ => return CallOutcome::Done(failed(error.to_string())),
            },
        };
        self.delete_thread(thread).await;
        CallOutcome::Done(result)
    }

    /// Restarts the time after which a thread expires. The caller must not drop the future, which holds the thread's
    /// lease.
    pub(crate) async fn keep_thread(&self, thread: &str) {
        let claim = Claim { when_running: WhenRunning::Reject, keeps_time_to_live: true, ..Claim::default() };
        let kept = match self.saver.acquire(thread, claim).await {
            Ok(lease) => self.saver.release(&lease).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            tracing::warn!(thread, %error, "failed to keep the thread of a task that waits for a free place");
        }
    }

    /// Deletes the thread of a call that has ended.
    pub(crate) async fn delete_thread(&self, thread: &str) {
        if let Err(error) = self.saver.delete_thread(thread).await {
            tracing::warn!(thread, %error, "failed to delete the thread of a call that has ended: delete the thread in the store");
        }
    }

    /// Returns the result of a call whose questions were not answered in time.
    pub(crate) fn unanswered(&self) -> String {
        format!("no answer within {} s, the limit of `question_timeout`", self.lasts.as_secs())
    }

    async fn still_open(&self, served: &GraphTool, thread: &str) -> Result<Vec<Question>, RunError> {
        let snapshot = served.graph.state(self.saver.clone(), Config::new().thread(thread)).await?;
        Ok(snapshot.questions.into_iter().filter(|question| !question.answered && question.kind.is_person()).collect())
    }

    /// Returns the state that a client needs to answer these questions. The state stays the same while the questions do.
    pub(crate) fn seal(&self, by: (&str, &SessionOwner), open: &PendingCall) -> Result<String, String> {
        let AskedQuestions { ids, state, .. } = &open.asked;
        if let Some(state) = state {
            return Ok(state.clone());
        }
        self.key.seal(&seal_context(by), &open.thread, ids.clone(), open.asked.remaining(), SystemTime::now())
    }

    /// Opens the call of a sealed state. Fails if the state is invalid or was already used.
    pub(crate) async fn reopen(
        &self,
        by: (&str, &SessionOwner),
        served: &GraphTool,
        state: &str,
    ) -> Result<PendingCall, String> {
        let now = SystemTime::now();
        let opened = self.key.open(&seal_context(by), state, now)?;
        let until = UNIX_EPOCH.checked_add(Duration::from_secs(opened.until));
        let remaining = until.map(|until| until.duration_since(now).unwrap_or_default());
        let until = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        let questions = self.still_open(served, &opened.thread).await.map_err(|error| error.to_string())?;
        if ids(&questions) != opened.questions {
            return Err("`requestState` was answered already: its questions are closed".to_owned());
        }
        let asked = AskedQuestions { ids: opened.questions, until, state: Some(state.to_owned()) };
        Ok(PendingCall { thread: opened.thread, questions, asked })
    }

    /// Returns the input that answers the questions, or `None` if an answer is missing or invalid.
    pub(crate) fn answers(questions: &[Question], responses: &BTreeMap<String, Value>) -> Option<DynInput> {
        let mut answers = Map::new();
        for (key, question) in elicitation::keys(questions) {
            let answer = elicitation::answer(question, responses.get(&key)?).ok()?;
            answers.insert(question.id.clone(), answer);
        }
        DynCommand::from_json(&json!({ "resume": answers })).ok().map(DynInput::Command)
    }
}

/// Returns the context of a sealed state: a tool and a user. The context is unambiguous, because tool names have no
/// spaces.
fn seal_context((tool, owner): (&str, &SessionOwner)) -> String {
    format!("{tool} {}", owner.name())
}

/// Returns the open questions to people. Fails if there are none, because clients cannot answer other questions.
fn open_questions(questions: Vec<Question>) -> Result<Vec<Question>, String> {
    let open: Vec<Question> =
        questions.into_iter().filter(|question| !question.answered && question.kind.is_person()).collect();
    if open.is_empty() {
        return Err("the graph waits for a time or a signal, which tool calls do not support".to_owned());
    }
    Ok(open)
}

/// Returns the ids of the questions that the client has declined.
fn declined(input: &DynInput) -> BTreeSet<String> {
    let DynInput::Command(DynCommand { resume: Some(Value::Object(answers)), .. }) = input else {
        return BTreeSet::new();
    };
    answers.iter().filter(|(_, answer)| answer.is_null()).map(|(id, _)| id.clone()).collect()
}

fn ids(questions: &[Question]) -> Vec<String> {
    let mut ids: Vec<String> = questions.iter().map(|question| question.id.clone()).collect();
    ids.sort();
    ids
}

pub(crate) fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}
