//! Routes answers to the questions of an open superstep, before anything is stored.

use std::collections::HashMap;

use serde_json::Value;

use crate::checkpoint::{Checkpoint, NextTasks, TaskWrites, slot};
use crate::engine::attempt::stored;
use crate::engine::durable::pending::{Pending, questions_of};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::task_log::NamespacedWrites;
use crate::engine::program::CommandAnswers;
use crate::error::{NodeError, RunError};
use crate::question::{Asker, Question};
use crate::state::Values;

const WITHDRAWN: &str = "`update_state` has changed the graph that asked it; run the thread with `()` to ask again";

pub(in crate::engine) struct AnswerRouter<'a, S: Values, C> {
    reader: ThreadReader<'a, S, C>,
    pending: &'a Pending,
    standing: Standing,
}

/// The position of a thread relative to the checkpoint that the answers address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Open,
    /// The thread has continued from the addressed checkpoint.
    Past,
    /// The thread is finished. The value is the number of its last superstep.
    Over(i64),
}

#[derive(Debug, Default)]
pub(in crate::engine) struct RoutedAnswers {
    /// The records that store the answers with the tasks that asked.
    pub(in crate::engine) writes: Vec<NamespacedWrites>,
    /// An answer for the first task that asks.
    pub(in crate::engine) unaddressed: Option<Value>,
}

pub(in crate::engine) fn answer_to(asker: &Asker, value: &Value) -> Result<NamespacedWrites, NodeError> {
    let writes = TaskWrites {
        checkpoint: asker.checkpoint,
        task: asker.task,
        path: asker.path.as_str().into(),
        writes: vec![stored::answer(asker.number, &asker.identity, value)?],
    };
    Ok(NamespacedWrites { namespace: asker.namespace.as_str().into(), writes })
}

pub(in crate::engine) fn unknown_thread<S: Values, C>(reader: ThreadReader<'_, S, C>) -> RunError {
    let thread = reader.thread;
    let reason = format!("thread `{thread}` has no questions: nothing is stored under that id");
    RunError::Answer { graph: reader.graph_name(), reason, pending: Vec::new() }
}

impl<'a, S: Values, C> AnswerRouter<'a, S, C> {
    pub(in crate::engine) fn new(
        reader: ThreadReader<'a, S, C>,
        pending: &'a Pending,
        checkpoint: &Checkpoint,
        is_newest: bool,
    ) -> Result<Self, RunError> {
        let NextTasks { start, ready, sends, .. } = &checkpoint.agenda;
        let is_redirected = pending.is_redirected().map_err(|error| reader.unfit(error))?;
        let standing = match (*start || !ready.is_empty() || !sends.is_empty() || is_redirected, is_newest) {
            (false, _) => Standing::Over(checkpoint.step),
            (true, false) => Standing::Past,
            (true, true) => Standing::Open,
        };
        Ok(Self { reader, pending, standing })
    }

    pub(in crate::engine) fn route(&self, answers: &CommandAnswers) -> Result<RoutedAnswers, RunError> {
        let asked = self.pending.open().map_err(|error| self.reader.unfit(error))?;
        let open: Vec<&Question> =
            asked.iter().flat_map(|(_, questions)| questions).filter(|question| is_asked(question)).collect();
        match (answers, &*open) {
            (CommandAnswers::Json(answers), _) => match answers.matched(&open) {
                Ok(Some(answers)) => self.route(&answers),
                Ok(None) => Ok(RoutedAnswers::default()),
                Err(reason) => Err(self.refused(&format!("refuses a result: {reason}"), &open)),
            },
            (CommandAnswers::One(value), [question]) => {
                self.by_id(&asked, &open, &HashMap::from([(question.id.as_str(), value)]))
            }
            (CommandAnswers::One(_), [])
                if asked.iter().any(|(_, questions)| questions.iter().any(|it| !it.answered)) =>
            {
                Err(self.refused(
                    "waits for a time or a signal, which an answer cannot replace: send the signal (`send`)",
                    &open,
                ))
            }
            (CommandAnswers::One(value), []) => self.route_unaddressed(value),
            (CommandAnswers::One(_), several) => Err(self.refused(
                &format!("received one answer, but {} questions are open: answer by id", several.len()),
                &open,
            )),
            (CommandAnswers::ById(answers), _) if answers.is_empty() => Err(self.refused("received no answer", &open)),
            (CommandAnswers::ById(answers), _) => {
                let mut given = HashMap::with_capacity(answers.len());
                for (id, value) in answers {
                    if given.insert(id.as_str(), value).is_some() {
                        return Err(self.refused(&format!("received two answers to the question `{id}`"), &open));
                    }
                }
                self.by_id(&asked, &open, &given)
            }
        }
    }

    /// Keeps an answer without a question id for the first task that asks. Fails if a task has asked already.
    fn route_unaddressed(&self, value: &Value) -> Result<RoutedAnswers, RunError> {
        let is_lenient = self.reader.graph.lenient;
        let has_asked = self.pending.has_asked().map_err(|error| self.reader.unfit(error))?;
        // LangGraph replaces an answer that still waits for a question.
        let replaces =
            is_lenient && self.pending.unaddressed_answer().map_err(|error| self.reader.unfit(error))?.is_some();
        let reason = match self.standing {
            // LangGraph accepts this answer and ignores it.
            Standing::Over(_) | Standing::Past if is_lenient => return Ok(RoutedAnswers::default()),
            Standing::Over(step) => format!("has finished (superstep {step}): no question is open"),
            Standing::Past => "has continued from this checkpoint, and its questions have been answered: to change an \
                               answer, run the checkpoint again with `()`, which asks again"
                .to_owned(),
            Standing::Open if !replaces && self.pending.had_unaddressed_answer() => {
                "already has an answer for the first question: run it with `()`".to_owned()
            }
            Standing::Open if !has_asked => {
                return Ok(RoutedAnswers { unaddressed: Some(value.clone()), ..RoutedAnswers::default() });
            }
            Standing::Open if !self.withdrawn()?.is_empty() => {
                format!("has withdrawn its questions: {WITHDRAWN}")
            }
            Standing::Open => {
                "has no open question in this superstep, because all have been answered: run it with `()` to finish the \
                               remaining tasks"
                    .to_owned()
            }
        };
        Err(self.refused(&reason, &[]))
    }

    /// The withdrawn questions. `update_state` has changed the graphs that asked them.
    fn withdrawn(&self) -> Result<Vec<Question>, RunError> {
        let mut withdrawn = Vec::new();
        for record in self.pending.records() {
            let asked = questions_of(record).map_err(|error| self.reader.unfit(error))?;
            withdrawn.extend(asked.into_iter().filter(|question| question.withdrawn));
        }
        Ok(withdrawn)
    }

    fn by_id(
        &self,
        asked: &[(&TaskWrites, Vec<Question>)],
        open: &[&Question],
        given: &HashMap<&str, &Value>,
    ) -> Result<RoutedAnswers, RunError> {
        let known: HashMap<&str, &Question> = open.iter().map(|question| (question.id.as_str(), *question)).collect();
        if let Some(unknown) = given.keys().find(|id| !known.contains_key(*id)) {
            let withdrawn = self.withdrawn()?;
            let reason = match self.standing {
                Standing::Over(step) => {
                    format!("has finished (superstep {step}): no question with the id `{unknown}` is open")
                }
                _ if withdrawn.iter().any(|question| question.id == **unknown) => {
                    format!("has withdrawn the question `{unknown}`: {WITHDRAWN}")
                }
                _ => {
                    format!(
                        "has no open question with the id `{unknown}`: it belongs to another thread, has been answered, or waits for a time or a signal"
                    )
                }
            };
            return Err(self.refused(&reason, open));
        }
        let unsaved = |error: NodeError| RunError::Encode {
            graph: self.reader.graph_name(),
            what: "the answer".to_owned(),
            reason: error.to_string(),
        };
        let mut writes = Vec::with_capacity(2 * given.len());
        for (record, questions) in asked {
            if !questions.iter().any(|question| !question.answered && given.contains_key(question.id.as_str())) {
                continue;
            }
            let mut questions = questions.clone();
            for question in questions.iter_mut().filter(|question| !question.answered) {
                let Some(value) = given.get(question.id.as_str()) else { continue };
                question.answered = true;
                if let Some(asker) = &question.asker {
                    writes.push(answer_to(asker, value).map_err(unsaved)?);
                }
            }
            let marked = stored::entry(slot::INTERRUPT, stored::INTERRUPT, &questions).map_err(unsaved)?;
            let record = TaskWrites { writes: vec![marked], ..(*record).clone() };
            writes.push(NamespacedWrites { namespace: "".into(), writes: record });
        }
        Ok(RoutedAnswers { writes, unaddressed: None })
    }

    fn refused(&self, reason: &str, open: &[&Question]) -> RunError {
        RunError::Answer {
            graph: self.reader.graph_name(),
            reason: format!("thread `{}` {reason}", self.reader.thread),
            pending: open.iter().map(|question| (*question).clone()).collect(),
        }
    }
}

fn is_asked(question: &Question) -> bool {
    !question.answered && question.kind.is_person()
}
