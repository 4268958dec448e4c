//! What of a thread waits for a time or a signal, and what is woken when that has come.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use crate::checkpoint::{CodecError, Delivered, DueChange, SaverError, SideEffects, TaskWrites, slot};
use crate::engine::attempt::stored::{INTERRUPT, answer, entry};
use crate::engine::durable::pending::{Pending, TaskRecord, asked};
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::error::NodeError;
use crate::question::{Question, QuestionKind};

/// What of a thread waits for a time or a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// When it is due, as far as is known.
    pub(crate) at: Option<SystemTime>,
    /// The greatest number of a letter that is known.
    pub(crate) seen: u64,
    /// The graph whose thread it is, if anything is stored.
    pub(crate) graph: Option<Arc<str>>,
}

/// The names of signals that wait in a mailbox.
type Signals = HashSet<Arc<str>>;

fn signals(mail: &[Delivered]) -> Signals {
    mail.iter().filter_map(|posted| posted.message.signal.clone()).collect()
}

/// Whether what a question waits for has come.
fn has_come(question: &Question, now: SystemTime, signals: &Signals) -> bool {
    let is_sent = matches!(&question.kind, QuestionKind::Signal(name) if signals.contains(name));
    is_sent || question.due.is_some_and(|due| due <= now)
}

impl Pending {
    /// Whether a task waits, or has waited, for a time or a signal.
    pub(in crate::engine) fn waits(&self) -> Result<bool, CodecError> {
        for record in self.records() {
            if asked(record)?.iter().any(Question::is_woken) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// When the thread is due for what its tasks wait for.
    fn due(&self, now: SystemTime, signals: &Signals) -> Result<Option<SystemTime>, CodecError> {
        let mut first: Option<SystemTime> = None;
        for (place, record) in self.undone()? {
            // Who was woken and has neither ended nor failed was cut off.
            let was_cut_off = self.error(place)?.is_none();
            for question in asked(record)?.iter().filter(|question| question.is_woken() && !question.withdrawn) {
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
        mail: &[Delivered],
    ) -> Result<Vec<(Arc<str>, TaskWrites)>, NodeError> {
        let (signals, mut writes) = (signals(mail), Vec::new());
        for (record, mut questions) in self.open()? {
            let mut woken = false;
            for question in questions.iter_mut().filter(|question| !question.answered && question.is_woken()) {
                if !has_come(question, now, &signals) {
                    continue;
                }
                (question.answered, woken) = (true, true);
                if let (Some(asker), Some(default)) = (&question.asker, &question.default) {
                    let writes_of = TaskWrites {
                        checkpoint: asker.checkpoint,
                        task: asker.task,
                        path: asker.path.as_str().into(),
                        writes: vec![answer(asker.number, &asker.identity, default)?],
                    };
                    writes.push((asker.namespace.as_str().into(), writes_of));
                }
            }
            if woken {
                let mut marked = vec![entry(slot::INTERRUPT, INTERRUPT, &questions)?];
                marked.extend(record.forgiven()?);
                writes.push(("".into(), TaskWrites { writes: marked, ..record.clone() }));
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
) -> Result<Waiting, SaverError> {
    // The letters first: one that comes after is not known.
    let mail = saver.mail(thread).await?;
    let seen = mail.iter().map(|posted| posted.number).max().unwrap_or_default();
    let Some(found) = saver.get(thread, "", None).await? else { return Ok(Waiting { seen, ..Waiting::default() }) };
    let graph = Some(Arc::from(&*found.checkpoint.schema.graph));
    let due = Pending::new(found.writes, renamed, None).due(now, &signals(&mail));
    let damaged = |error: CodecError| SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() };
    Ok(Waiting { at: due.map_err(damaged)?, seen, graph })
}

/// Says when the thread is due, at the end of whatever was done with it.
pub(crate) async fn settle(
    committer: &Committer,
    renamed: &[(String, String)],
    now: SystemTime,
) -> Result<Waiting, SaverError> {
    let waiting = waiting(&committer.saver, &committer.lease.thread, renamed, now).await?;
    let graph = waiting.graph.clone().unwrap_or_else(|| committer.graph.clone());
    let due = DueChange::Exactly { at: waiting.at, graph, seen: waiting.seen };
    committer.commit_also(Vec::new(), SideEffects::due(due)).await?;
    Ok(waiting)
}

/// Says that a thread that is due is to be looked at again then.
pub(crate) async fn postpone(committer: &Committer, until: SystemTime) -> Result<(), SaverError> {
    committer.commit_also(Vec::new(), SideEffects::due(DueChange::Postponed { until })).await
}
