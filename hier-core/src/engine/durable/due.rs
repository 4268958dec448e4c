//! Finds the tasks of a thread that wait for a time or a signal, and wakes them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use crate::checkpoint::{CodecError, Delivered, DueChange, SaverError, SideEffects, TaskWrites, slot};
use crate::engine::attempt::stored::{INTERRUPT, entry};
use crate::engine::durable::answer::answer_to;
use crate::engine::durable::attempts;
use crate::engine::durable::pending::{Pending, TaskRecord, questions_of};
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::NamespacedWrites;
use crate::error::NodeError;
use crate::question::{Question, QuestionKind};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadWait {
    pub(crate) at: Option<SystemTime>,
    pub(crate) seen: u64,
    /// The graph of the thread. None if the thread has no checkpoint.
    pub(crate) graph: Option<Arc<str>>,
}

type SignalNames = HashSet<Arc<str>>;

fn signals(mail: &[Delivered]) -> SignalNames {
    mail.iter().filter_map(|posted| posted.message.signal.clone()).collect()
}

fn has_come(question: &Question, now: SystemTime, signals: &SignalNames) -> bool {
    let is_sent = matches!(&question.kind, QuestionKind::Signal(name) if signals.contains(name));
    is_sent || question.due.is_some_and(|due| due <= now)
}

impl Pending {
    /// Returns true if a task waits, or has waited, for a time or a signal.
    pub(in crate::engine) fn has_waiting_task(&self) -> Result<bool, CodecError> {
        for record in self.records() {
            if questions_of(record)?.iter().any(Question::is_woken) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn due(&self, now: SystemTime, signals: &SignalNames) -> Result<Option<SystemTime>, CodecError> {
        let mut first: Option<SystemTime> = None;
        for (place, record) in self.undone()? {
            // A task whose wait is over and that has neither ended nor failed was cut off, so it is due again.
            let was_cut_off = self.error(place)?.is_none();
            for question in questions_of(record)?.iter().filter(|question| question.is_woken() && !question.withdrawn) {
                let at = match (question.answered, has_come(question, now, signals)) {
                    (false, true) => Some(now),
                    (true, _) => Some(now).filter(|_| was_cut_off),
                    (false, false) => question.due,
                };
                first = first.into_iter().chain(at).min();
            }
        }
        Ok(first)
    }

    /// Returns the records that answer the questions whose time or signal has come. The answer is the question's
    /// default.
    pub(in crate::engine) fn woken(
        &self,
        now: SystemTime,
        mail: &[Delivered],
    ) -> Result<Vec<NamespacedWrites>, NodeError> {
        let (signals, mut writes) = (signals(mail), Vec::new());
        for (record, mut questions) in self.open()? {
            let mut woken = false;
            for question in questions.iter_mut().filter(|question| !question.answered && question.is_woken()) {
                if !has_come(question, now, &signals) {
                    continue;
                }
                (question.answered, woken) = (true, true);
                if let (Some(asker), Some(default)) = (&question.asker, &question.default) {
                    writes.push(answer_to(asker, default)?);
                }
            }
            if woken {
                let mut marked = vec![entry(slot::INTERRUPT, INTERRUPT, &questions)?];
                marked.extend(record.forgiven()?);
                let record = TaskWrites { writes: marked, ..record.clone() };
                writes.push(NamespacedWrites { namespace: "".into(), writes: record });
            }
        }
        Ok(writes)
    }
}

pub(crate) async fn waiting(
    saver: &Saver,
    thread: &str,
    renamed: &[(String, String)],
    now: SystemTime,
) -> Result<ThreadWait, SaverError> {
    // Reads the messages first. The result must not claim to know a message that arrived after the thread was read.
    let mail = saver.mail(thread).await?;
    let seen = mail.iter().map(|posted| posted.number).max().unwrap_or_default();
    let Some(found) = saver.get(thread, "", None).await? else {
        return Ok(ThreadWait { seen, ..ThreadWait::default() });
    };
    let graph = Some(Arc::from(&*found.checkpoint.schema.graph));
    if attempts::has_failed(&found) {
        return Ok(ThreadWait { at: None, seen, graph });
    }
    let due = Pending::new(found.writes, renamed, None).due(now, &signals(&mail));
    let damaged = |error: CodecError| SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() };
    Ok(ThreadWait { at: due.map_err(damaged)?, seen, graph })
}

pub(crate) async fn settle(
    committer: &Committer,
    renamed: &[(String, String)],
    now: SystemTime,
) -> Result<ThreadWait, SaverError> {
    let waiting = waiting(&committer.saver, &committer.lease.thread, renamed, now).await?;
    let graph = waiting.graph.clone().unwrap_or_else(|| committer.graph.clone());
    let due = DueChange::Exactly { at: waiting.at, graph, seen: waiting.seen };
    committer.commit_also(Vec::new(), SideEffects::due(due)).await?;
    Ok(waiting)
}

pub(crate) async fn postpone(committer: &Committer, until: SystemTime) -> Result<(), SaverError> {
    committer.commit_also(Vec::new(), SideEffects::due(DueChange::Postponed { until })).await
}
