//! What of a thread waits for a time or a signal, and what is woken when that has come.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use crate::checkpoint::{Also, CodecError, DueChange, Posted, SaverError, TaskWrites, slot};
use crate::engine::attempt::stored::{INTERRUPT, entry};
use crate::engine::durable::answer::answer_to;
use crate::engine::durable::pending::{Pending, TaskRecord, questions_of};
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::NamespacedWrites;
use crate::error::NodeError;
use crate::question::{Question, QuestionKind};

/// What of a thread waits for a time or a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadWait {
    /// When it is due, as far as is known.
    pub(crate) at: Option<SystemTime>,
    /// The greatest number of a letter that is known.
    pub(crate) seen: u64,
    /// The graph whose thread it is, if anything is stored.
    pub(crate) graph: Option<Arc<str>>,
}

/// The names of signals that wait in a mailbox.
type SignalNames = HashSet<Arc<str>>;

fn signals(mail: &[Posted]) -> SignalNames {
    mail.iter().filter_map(|posted| posted.letter.signal.clone()).collect()
}

/// Whether what a question waits for has come.
fn has_come(question: &Question, now: SystemTime, signals: &SignalNames) -> bool {
    let is_sent = matches!(&question.kind, QuestionKind::Signal(name) if signals.contains(name));
    is_sent || question.due.is_some_and(|due| due <= now)
}

impl Pending {
    /// Whether a task waits, or has waited, for a time or a signal.
    pub(in crate::engine) fn waits(&self) -> Result<bool, CodecError> {
        for record in self.records() {
            if questions_of(record)?.iter().any(Question::is_woken) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// When the thread is due for what its tasks wait for.
    fn due(&self, now: SystemTime, signals: &SignalNames) -> Result<Option<SystemTime>, CodecError> {
        let mut first: Option<SystemTime> = None;
        for (place, record) in self.undone()? {
            // Who was woken and has neither ended nor failed was cut off.
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

    /// What is stored for those for whom the time or the signal has come: they are not asked any more, and have the answer that was
    /// given for that case.
    pub(in crate::engine) fn woken(
        &self,
        now: SystemTime,
        mail: &[Posted],
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

/// What a thread waits for.
pub(crate) async fn waiting(
    saver: &Saver,
    thread: &str,
    renamed: &[(String, String)],
    now: SystemTime,
) -> Result<ThreadWait, SaverError> {
    // The letters first: one that comes after is not known.
    let mail = saver.mail(thread).await?;
    let seen = mail.iter().map(|posted| posted.number).max().unwrap_or_default();
    let Some(found) = saver.get(thread, "", None).await? else {
        return Ok(ThreadWait { seen, ..ThreadWait::default() });
    };
    let graph = Some(Arc::from(&*found.checkpoint.schema.graph));
    let due = Pending::new(found.writes, renamed, None).due(now, &signals(&mail));
    let damaged = |error: CodecError| SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() };
    Ok(ThreadWait { at: due.map_err(damaged)?, seen, graph })
}

/// Says when the thread is due, at the end of whatever was done with it.
pub(crate) async fn settle(
    committer: &Committer,
    renamed: &[(String, String)],
    now: SystemTime,
) -> Result<ThreadWait, SaverError> {
    let waiting = waiting(&committer.saver, &committer.lease.thread, renamed, now).await?;
    let graph = waiting.graph.clone().unwrap_or_else(|| committer.graph.clone());
    let due = DueChange::Exactly { at: waiting.at, graph, seen: waiting.seen };
    committer.commit_also(Vec::new(), Also::due(due)).await?;
    Ok(waiting)
}

/// Says that a thread that is due is to be looked at again then.
pub(crate) async fn postpone(committer: &Committer, until: SystemTime) -> Result<(), SaverError> {
    committer.commit_also(Vec::new(), Also::due(DueChange::Postponed { until })).await
}
