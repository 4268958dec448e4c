use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{AnswerRecord, CodecError, PendingWrite, TaskWrites, codec, slot};
use crate::engine::attempt::stored::{ERROR, FailureRecord, INTERRUPT, RESUME, ROUTING, RoutingRecord, VOID, entry};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::durable::upgrade::{RecordRewriter, SchemaUpgrade};
use crate::engine::program::{By, PULLED, STEP, StepLog, TaskAnswer, TaskOutcome, TaskResume};
use crate::error::{NodeError, RunError};
use crate::question::Question;
use crate::state::{Values, Writes};

/// The stored records of the tasks of an open superstep, by the places of the tasks. The ids of the tasks are not used
/// as keys: an id also depends on the edges to the node, which may differ in another version of the program.
#[derive(Default)]
pub(crate) struct Pending {
    tasks: BTreeMap<Arc<str>, TaskWrites>,
    /// Pairs of an earlier and the current name of a node.
    renamed: Vec<(String, String)>,
    /// The commands of callers, and an answer for the first task that asks.
    pub(in crate::engine) caller: Option<TaskWrites>,
    upgrade: Option<SchemaUpgrade>,
}

impl Pending {
    pub(in crate::engine) fn new(
        writes: Vec<TaskWrites>,
        renamed: &[(String, String)],
        upgrade: Option<SchemaUpgrade>,
    ) -> Self {
        let mut pending = Self { renamed: renamed.to_vec(), upgrade, ..Self::default() };
        for writes in writes {
            if writes.task.is_nil() {
                pending.caller = Some(writes);
            } else {
                pending.absorb(writes);
            }
        }
        pending
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.caller.is_none()
    }

    /// Returns the place of a task, with the current name of its node.
    fn place(&self, path: &Arc<str>) -> Arc<str> {
        let Some(node) = path.strip_prefix(PULLED) else { return path.clone() };
        let renamed = self.renamed.iter().find(|(old, _)| old == node);
        renamed.map_or_else(|| path.clone(), |(_, new)| format!("{PULLED}{new}").into())
    }

    /// The id under which a task has stored records.
    pub(crate) fn id(&self, place: &str) -> Option<Uuid> {
        self.tasks.get(place).map(|record| record.task)
    }

    /// Adds newer writes of a task. They replace the writes in the same slots.
    pub(in crate::engine) fn absorb(&mut self, writes: TaskWrites) {
        let place = self.place(&writes.path);
        let record = self.tasks.entry(place).or_insert_with(|| TaskWrites { writes: Vec::new(), ..writes.clone() });
        record.writes.retain(|old| writes.writes.iter().all(|new| new.slot != old.slot));
        record.writes.extend(writes.writes);
    }

    pub(in crate::engine) fn rewriter<'a, S: Values, C>(
        &'a self,
        reader: ThreadReader<'a, S, C>,
        state: &'a S,
    ) -> RecordRewriter<'a, S, C> {
        RecordRewriter { reader, state, upgrade: self.upgrade.as_ref() }
    }

    /// Returns the stored outcome of a task. Returns `None` if the task has not finished.
    pub(in crate::engine) fn done<S: Values, C>(
        &self,
        place: &str,
        reader: ThreadReader<'_, S, C>,
        state: &S,
    ) -> Result<Option<TaskOutcome<S>>, CodecError> {
        let Some((routing, stored)) = self.result(place)? else { return Ok(None) };
        let rewriter = self.rewriter(reader, state);
        let mut writes = Writes::new();
        for write in stored {
            let read = rewriter.write(routing.rule_of(&write.channel), &write.channel, &write.value)?;
            for write in read {
                writes.push(write);
            }
        }
        let by = if routing.handler { By::Handler } else { By::Node };
        Ok(Some(TaskOutcome { writes, destinations: Some(Box::new(rewriter.destinations(&routing)?)), by }))
    }

    /// Returns the routing and the stored writes of a finished task, in the order of their slots.
    fn result(&self, place: &str) -> Result<Option<(RoutingRecord, Vec<&PendingWrite>)>, CodecError> {
        let Some(record) = self.tasks.get(place) else { return Ok(None) };
        let void = record.failed()?.and_then(|failed| failed.void).unwrap_or(0);
        let mut stored: Vec<&PendingWrite> = record.writes.iter().filter(|write| write.slot >= void).collect();
        stored.sort_by_key(|write| write.slot);
        let is_routing = |write: &&PendingWrite| &*write.channel == ROUTING;
        // The routing follows its writes. If the task ran again, an earlier result comes first.
        let Some(routing) = stored.iter().rposition(is_routing) else { return Ok(None) };
        let writes = stored[..routing].rsplit(is_routing).next().unwrap_or_default().to_vec();
        Ok(Some((codec::decode(&stored[routing].value)?, writes)))
    }

    pub(in crate::engine) fn check<S: Values, C>(
        &self,
        reader: ThreadReader<'_, S, C>,
        state: &S,
    ) -> Result<(), RunError> {
        for place in self.tasks.keys() {
            self.done(place, reader, state).map_err(|error| reader.unfit(error))?;
        }
        Ok(())
    }

    pub(crate) fn resume(&self, place: &str) -> Result<TaskResume, CodecError> {
        let Some(record) = self.tasks.get(place) else { return Ok(TaskResume::default()) };
        let failed = record.failed()?;
        let void = failed.as_ref().and_then(|failed| failed.void);
        let failure = failed.filter(|failed| failed.handled).map(|failed| failed.message);
        let (answers, questions) = (record.answers()?, self.questions(place)?);
        let known = Some((record.task, record.path.clone()));
        let (free_slot, steps) = (record.free_slot(), Arc::new(StepLog::read(&record.writes)?));
        Ok(TaskResume { known, answers, free_slot, failure, void, questions, steps, ..TaskResume::default() })
    }

    /// Returns the records that void all results, steps and answers of the tasks.
    pub(in crate::engine) fn void(&self) -> Result<Vec<TaskWrites>, NodeError> {
        let back = |write: &PendingWrite| PendingWrite { channel: VOID.into(), value: Vec::new(), ..write.clone() };
        let goes = |write: &&PendingWrite| {
            write.slot <= slot::RESUME && (&*write.channel == RESUME || &*write.channel == STEP)
        };
        let mut records = Vec::new();
        for record in self.tasks.values().chain(&self.caller) {
            let mut writes: Vec<PendingWrite> = record.writes.iter().filter(goes).map(back).collect();
            if !record.task.is_nil() {
                let void = FailureRecord { void: Some(record.free_slot()), ..FailureRecord::default() };
                writes.push(entry(slot::ERROR, ERROR, &void)?);
                let none: &[Question] = &[];
                writes.push(entry(slot::INTERRUPT, INTERRUPT, none)?);
            }
            if !writes.is_empty() {
                records.push(TaskWrites { writes, ..record.clone() });
            }
        }
        Ok(records)
    }

    pub(crate) fn free_slot(&self, place: &str) -> i32 {
        self.tasks.get(place).map_or(0, TaskWrites::free_slot)
    }

    pub(in crate::engine) fn records(&self) -> impl Iterator<Item = &TaskWrites> {
        self.tasks.values()
    }

    pub(crate) fn questions(&self, place: &str) -> Result<Vec<Question>, CodecError> {
        self.tasks.get(place).map_or(Ok(Vec::new()), questions_of)
    }

    pub(crate) fn error(&self, place: &str) -> Result<Option<String>, CodecError> {
        let failed = self.tasks.get(place).map(TaskWrites::failed).transpose()?;
        Ok(failed.flatten().map(|failed| failed.message).filter(|message| !message.is_empty()))
    }

    pub(in crate::engine) fn undone(&self) -> Result<Vec<(&str, &TaskWrites)>, CodecError> {
        let tasks = self.tasks.iter().map(|(place, record)| Ok((!record.is_done()?).then_some((&**place, record))));
        tasks.filter_map(Result::transpose).collect()
    }

    pub(in crate::engine) fn is_done(&self, task: Uuid) -> Result<bool, CodecError> {
        self.tasks.values().find(|record| record.task == task).map_or(Ok(false), TaskWrites::is_done)
    }

    /// The questions of all unfinished tasks that have an open question, with the records of these tasks.
    pub(in crate::engine) fn open(&self) -> Result<Vec<(&TaskWrites, Vec<Question>)>, CodecError> {
        let mut open = Vec::new();
        for record in self.tasks.values() {
            let questions = questions_of(record)?;
            if !record.is_done()? && questions.iter().any(|question| !question.answered) {
                open.push((record, questions));
            }
        }
        open.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        Ok(open)
    }
}

pub(in crate::engine) fn questions_of(record: &TaskWrites) -> Result<Vec<Question>, CodecError> {
    let asked = record.writes.iter().find(|write| write.slot == slot::INTERRUPT);
    asked.map_or(Ok(Vec::new()), |asked| codec::decode(&asked.value))
}

pub(in crate::engine) trait TaskRecord {
    fn free_slot(&self) -> i32;

    fn is_done(&self) -> Result<bool, CodecError>;

    /// Returns the entry that removes the task's earlier error, if it had one.
    fn forgiven(&self) -> Result<Option<PendingWrite>, NodeError>;

    fn failed(&self) -> Result<Option<FailureRecord>, CodecError>;

    fn answers(&self) -> Result<Vec<TaskAnswer>, CodecError>;
}

impl TaskRecord for TaskWrites {
    fn free_slot(&self) -> i32 {
        self.writes.iter().map(|write| write.slot + 1).max().unwrap_or(0).max(0)
    }

    fn is_done(&self) -> Result<bool, CodecError> {
        let void = self.failed()?.and_then(|failed| failed.void).unwrap_or(0);
        Ok(self.writes.iter().any(|write| write.slot >= void && &*write.channel == ROUTING))
    }

    fn forgiven(&self) -> Result<Option<PendingWrite>, NodeError> {
        let failed = self.failed()?.filter(|failed| !failed.handled && !failed.message.is_empty());
        failed.map(|failed| entry(slot::ERROR, ERROR, &FailureRecord { message: String::new(), ..failed })).transpose()
    }

    fn failed(&self) -> Result<Option<FailureRecord>, CodecError> {
        let failed = self.writes.iter().find(|write| write.slot == slot::ERROR);
        failed.map(|failed| codec::decode(&failed.value)).transpose()
    }

    fn answers(&self) -> Result<Vec<TaskAnswer>, CodecError> {
        let mut answers = Vec::new();
        for write in self.writes.iter().filter(|write| &*write.channel == RESUME) {
            let Some(number) = slot::answered(write.slot) else { continue };
            let AnswerRecord { to: identity, value } = codec::decode(&write.value)?;
            answers.push(TaskAnswer { number, identity, value });
        }
        answers.sort_by_key(|answer| answer.number);
        Ok(answers)
    }
}
