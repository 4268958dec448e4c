//! Calls of graphs: a run each, which may ask something and go on with the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::Checkpointer;
use hier_core::graph::{DynCommand, DynInput, DynRun, DynTell};
use hier_core::{Config, Outcome, Question, RunError, StreamMode};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::asked;
use super::seal::SealKey;
use super::served::Served;
use super::sessions::Owner;

pub(crate) struct Calls {
    pub(crate) graphs: BTreeMap<String, Served>,
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) key: SealKey,
    pub(crate) lasts: Duration,
    pub(crate) running: Arc<Semaphore>,
}

/// How far a call is.
pub(crate) enum Reached {
    /// It has ended.
    Done(CallToolResult),
    /// It asks something.
    Asks(Vec<Question>),
}

/// A call that goes on, with the questions that are open.
pub(crate) struct Open {
    pub(crate) thread: String,
    pub(crate) questions: Vec<Question>,
}

impl Calls {
    /// A place for one more call; none if there are too many.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.running.clone().try_acquire_owned().ok()
    }

    /// Begins a call; or says what is wrong with the arguments.
    pub(crate) fn begin(served: &Served, arguments: Option<JsonObject>) -> Result<(String, DynInput), String> {
        let input = served.input(arguments)?;
        Ok((format!("mcp-{}", uuid::Uuid::new_v4()), input))
    }

    /// Runs a thread until it ends or asks. Dropped, the run is cancelled.
    pub(crate) async fn run(&self, served: &Served, thread: &str, input: DynInput, tell: Option<DynTell>) -> Reached {
        let mut run = DynRun::new(input, Config::new().thread(thread));
        run.saver = Some(self.saver.clone());
        if tell.is_some() {
            run.modes = vec![StreamMode::Custom, StreamMode::Updates];
            run.tell = tell;
        }
        match served.graph.run(run).await {
            Ok(Outcome::Finished(state)) => {
                self.forget(thread).await;
                Reached::Done(served.result(state))
            }
            Ok(Outcome::Interrupted(asked)) => match open(asked.questions) {
                Ok(questions) => Reached::Asks(questions),
                Err(why) => Reached::Done(failed(why)),
            },
            Ok(Outcome::Stopped(stopped)) => Reached::Done(failed(format!("the graph stopped: {}", stopped.reason))),
            // An answer that was not taken leaves its question open.
            Err(error) => match self.still_open(served, thread).await {
                Ok(questions) if !questions.is_empty() => Reached::Asks(questions),
                _ => Reached::Done(failed(error.to_string())),
            },
        }
    }

    /// What a client that is asked nothing more leaves behind is not kept.
    async fn forget(&self, thread: &str) {
        if let Err(error) = self.saver.delete_thread(thread).await {
            tracing::warn!(thread, %error, "the thread of a call that has ended stays");
        }
    }

    async fn still_open(&self, served: &Served, thread: &str) -> Result<Vec<Question>, RunError> {
        let snapshot = served.graph.state(self.saver.clone(), Config::new().thread(thread)).await?;
        Ok(snapshot.questions.into_iter().filter(|question| !question.answered && question.kind.is_person()).collect())
    }

    /// Seals what a client needs to bring answers to these questions.
    pub(crate) fn seal(&self, by: (&str, &Owner), thread: &str, questions: &[Question]) -> Result<String, String> {
        self.key.seal(&bound(by), thread, ids(questions), self.lasts, SystemTime::now())
    }

    /// The call that a state is of; or why it is not taken.
    pub(crate) async fn reopen(&self, by: (&str, &Owner), served: &Served, state: &str) -> Result<Open, String> {
        let carried = self.key.open(&bound(by), state, SystemTime::now())?;
        let questions = self.still_open(served, &carried.thread).await.map_err(|error| error.to_string())?;
        if ids(&questions) != carried.questions {
            return Err("`requestState` was answered already: its questions are not open any more".to_owned());
        }
        Ok(Open { thread: carried.thread, questions })
    }

    /// What the graph goes on with; none if an answer is missing or does not fit.
    pub(crate) fn answers(questions: &[Question], responses: &BTreeMap<String, Value>) -> Option<DynInput> {
        let mut answers = Map::new();
        for (key, question) in asked::keys(questions) {
            let answer = asked::answer(question, responses.get(&key)?).ok()?;
            answers.insert(question.id.clone(), answer);
        }
        DynCommand::from_json(&json!({ "resume": answers })).ok().map(DynInput::Command)
    }
}

/// Returns the text that a state is sealed for: a tool and a user. It is unique, because tool names have no spaces.
fn bound((tool, owner): (&str, &Owner)) -> String {
    format!("{tool} {}", owner.name())
}

/// The questions of persons; or why a client cannot answer what is open.
fn open(questions: Vec<Question>) -> Result<Vec<Question>, String> {
    let open: Vec<Question> =
        questions.into_iter().filter(|question| !question.answered && question.kind.is_person()).collect();
    if open.is_empty() {
        return Err("the graph waits for a time or a signal, which a call cannot wait for".to_owned());
    }
    Ok(open)
}

fn ids(questions: &[Question]) -> Vec<String> {
    let mut ids: Vec<String> = questions.iter().map(|question| question.id.clone()).collect();
    ids.sort();
    ids
}

/// A tool that failed.
pub(crate) fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}
