//! Which question an answer is for: decided before anything is stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::checkpoint::{Checkpoint, CodecError, NextTasks, TaskWrites, codec, slot};
use crate::engine::attempt::stored;
use crate::engine::attempt::stored::RoutingRecord;
use crate::engine::durable::load::Reader;
use crate::engine::durable::pending;
use crate::engine::durable::pending::Pending;
use crate::engine::program::{Answers, STEP};
use crate::error::{NodeError, RunError};
use crate::question::Question;
use crate::state::Values;

/// Why a question is asked no more.
const WITHDRAWN: &str = "the graph that asked was changed by `update_state` meanwhile; go on with `()`, which asks again what is \
                         still to be asked";

/// A thread that is given answers.
pub(in crate::engine) struct Asked<'a, S: Values, C> {
    reader: Reader<'a, S, C>,
    pending: &'a Pending,
    standing: Standing,
}

/// Where a thread stands that is given answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// A step is open.
    Open,
    /// A checkpoint is addressed that the thread has gone on from.
    Past,
    /// Nothing is left to do: the number of the last step.
    Over(i64),
}

/// What answers change.
#[derive(Debug, Default)]
pub(in crate::engine) struct Given {
    /// What is stored with the tasks that asked, each with the namespace of the task's graph.
    pub(in crate::engine) writes: Vec<(Arc<str>, TaskWrites)>,
    /// An answer for the first task that asks.
    pub(in crate::engine) anyone: Option<Value>,
}

/// The error of an answer to a thread of which nothing is stored.
pub(in crate::engine) fn unknown_thread<S: Values, C>(reader: &Reader<'_, S, C>) -> RunError {
    let thread = reader.thread;
    let reason = format!("nobody has asked anything on thread `{thread}`: nothing is stored under that id");
    RunError::Answer { graph: reader.graph.plan.graph().to_owned(), reason, pending: Vec::new() }
}

impl<'a, S: Values, C> Asked<'a, S, C> {
    /// A thread at this checkpoint, with what is pending there.
    pub(in crate::engine) fn new(
        reader: Reader<'a, S, C>,
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

    /// What these answers change, or why they are refused.
    pub(in crate::engine) fn give(&self, answers: &Answers) -> Result<Given, RunError> {
        let asked = self.pending.open().map_err(|error| self.reader.unfit(error))?;
        let open: Vec<&Question> =
            asked.iter().flat_map(|(_, questions)| questions).filter(|question| is_asked(question)).collect();
        match (answers, &*open) {
            (Answers::One(value), [question]) => {
                self.by_id(&asked, &open, &HashMap::from([(question.id.as_str(), value)]))
            }
            (Answers::One(_), []) if asked.iter().any(|(_, questions)| questions.iter().any(|it| !it.answered)) => {
                Err(self.refused(
                    "waits for a time or a signal, which no answer stands for: send the signal (`send`)",
                    &open,
                ))
            }
            (Answers::One(value), []) => self.to_nobody(value),
            (Answers::One(_), several) => Err(self.refused(
                &format!("was given one answer, and {} questions are open: answer by id", several.len()),
                &open,
            )),
            (Answers::ById(answers), _) if answers.is_empty() => Err(self.refused("was given no answer", &open)),
            (Answers::ById(answers), _) => {
                let mut given = HashMap::with_capacity(answers.len());
                for (id, value) in answers {
                    if given.insert(id.as_str(), value).is_some() {
                        return Err(self.refused(&format!("was given two answers to the question `{id}`"), &open));
                    }
                }
                self.by_id(&asked, &open, &given)
            }
        }
    }

    /// A plain answer where no question is open: it waits for the first task that asks, unless somebody has asked already.
    fn to_nobody(&self, value: &Value) -> Result<Given, RunError> {
        let is_lenient = self.reader.graph.lenient;
        let nobody_asked = self.pending.nobody_asked().map_err(|error| self.reader.unfit(error))?;
        // As in the reference: an answer that waits for somebody who asks is replaced.
        let replaces = is_lenient && self.pending.anyone().map_err(|error| self.reader.unfit(error))?.is_some();
        let reason = match self.standing {
            // As in the reference: the answer is dropped.
            Standing::Over(_) | Standing::Past if is_lenient => return Ok(Given::default()),
            Standing::Over(step) => format!("has finished (step {step}): nothing is asked"),
            Standing::Past => {
                "has gone on from this checkpoint, and what was asked there has been answered: to answer \
                               otherwise, run the checkpoint again with `()`, which asks again"
                    .to_owned()
            }
            Standing::Open if !replaces && self.pending.is_anyone_answered() => {
                "has an answer already that waits for the first question: go on with `()`".to_owned()
            }
            Standing::Open if nobody_asked => {
                return Ok(Given { anyone: Some(value.clone()), ..Given::default() });
            }
            Standing::Open if !self.withdrawn()?.is_empty() => {
                format!("has withdrawn what was asked: {WITHDRAWN}")
            }
            Standing::Open => {
                "has no question left to answer in this step: each has its answer already, and the tasks that \
                               are not done go on with `()`"
                    .to_owned()
            }
        };
        Err(self.refused(&reason, &[]))
    }

    /// The questions of graphs that were changed after they had asked.
    fn withdrawn(&self) -> Result<Vec<Question>, RunError> {
        let mut withdrawn = Vec::new();
        for record in self.pending.records() {
            let asked = pending::asked(record).map_err(|error| self.reader.unfit(error))?;
            withdrawn.extend(asked.into_iter().filter(|question| question.withdrawn));
        }
        Ok(withdrawn)
    }

    fn by_id(
        &self,
        asked: &[(&TaskWrites, Vec<Question>)],
        open: &[&Question],
        given: &HashMap<&str, &Value>,
    ) -> Result<Given, RunError> {
        let known: HashMap<&str, &Question> = open.iter().map(|question| (question.id.as_str(), *question)).collect();
        if let Some(unknown) = given.keys().find(|id| !known.contains_key(*id)) {
            let withdrawn = self.withdrawn()?;
            let reason = match self.standing {
                Standing::Over(step) => {
                    format!("has finished (step {step}): no question with the id `{unknown}` is open")
                }
                _ if withdrawn.iter().any(|question| question.id == **unknown) => {
                    format!("has withdrawn the question `{unknown}`: {WITHDRAWN}")
                }
                _ => {
                    format!(
                        "has no open question with the id `{unknown}`: it is another's, or has its answer already, or waits for a time or a signal"
                    )
                }
            };
            return Err(self.refused(&reason, open));
        }
        let unsaved = |error: NodeError| RunError::Encode {
            graph: self.reader.graph.plan.graph().to_owned(),
            what: "what was given to the thread".to_owned(),
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
                    let writes_of = |writes| TaskWrites {
                        checkpoint: asker.checkpoint,
                        task: asker.task,
                        path: asker.path.as_str().into(),
                        writes,
                    };
                    let answer = stored::answer(asker.number, &asker.identity, value).map_err(unsaved)?;
                    writes.push((asker.namespace.as_str().into(), writes_of(vec![answer])));
                }
            }
            let marked = stored::entry(slot::INTERRUPT, stored::INTERRUPT, &questions).map_err(unsaved)?;
            writes.push(("".into(), TaskWrites { writes: vec![marked], ..(*record).clone() }));
        }
        Ok(Given { writes, anyone: None })
    }

    fn refused(&self, reason: &str, open: &[&Question]) -> RunError {
        RunError::Answer {
            graph: self.reader.graph.plan.graph().to_owned(),
            reason: format!("thread `{}` {reason}", self.reader.thread),
            pending: open.iter().map(|question| (*question).clone()).collect(),
        }
    }
}

/// Whether somebody outside is to answer it.
fn is_asked(question: &Question) -> bool {
    !question.answered && question.kind.is_person()
}

impl Pending {
    /// Whether no task has asked or been answered in this step.
    pub(in crate::engine) fn nobody_asked(&self) -> Result<bool, CodecError> {
        for record in self.records() {
            // A graph inside that stopped at a breakpoint asks nothing: its list is empty.
            if record.writes.iter().any(|write| write.slot <= slot::answer(0) && &*write.channel != STEP)
                || !pending::asked(record)?.is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether commands of callers have led anywhere.
    fn is_redirected(&self) -> Result<bool, CodecError> {
        let routes = self.null.iter().flat_map(|null| &null.writes);
        for write in routes.filter(|write| &*write.channel == stored::ROUTING) {
            let routing: RoutingRecord = codec::decode(&write.value)?;
            if !routing.go.is_empty() || !routing.sends.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether there is, or was, an answer for the first task that asks.
    fn is_anyone_answered(&self) -> bool {
        self.null.iter().flat_map(|null| &null.writes).any(|write| write.slot == slot::RESUME)
    }

    /// The ids of the questions that are open, if some of the step have been answered: only these tasks run again.
    pub(in crate::engine) fn open_beside_answered(&self) -> Result<Option<Open>, CodecError> {
        let answered = |record: &TaskWrites| {
            record.writes.iter().any(|write| write.slot <= slot::answer(0) && &*write.channel == stored::RESUME)
        };
        let mut some = self.records().any(answered);
        let mut open = Open::default();
        for record in self.records() {
            for question in pending::asked(record)? {
                some |= question.answered;
                if !question.answered {
                    open.insert(question.id);
                }
            }
        }
        Ok(some.then_some(open))
    }
}

/// The ids of open questions.
pub(crate) type Open = HashSet<String>;
