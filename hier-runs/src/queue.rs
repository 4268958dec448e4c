//! The rules of the runs of one thread. They do no I/O, and are the same for every database.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use uuid::Uuid;

use super::delivery;
use super::document::Document;
use super::error::RunsError;
use super::event::{LOG_BYTES, NewEvent};
use super::log_event::LogEvent;
use super::request::Request;
use super::run::{CANCELLED, Cancel, MultitaskStrategy, NewRun, Run, RunCommit, RunEnd};
use super::status::{RunStatus, ThreadStatus};
use super::thread::{NewThread, ThreadPatch, ThreadRow};
use hier_checkpoint::checkpoint::check_new_thread;

/// The size limit of the requests of a thread's runs that have not ended, as JSON, in bytes. Each change of the thread
/// reads these runs.
pub const QUEUE_BYTES: u64 = 64 << 20;

/// Time for which the thread of an ended temporary run is kept, so that clients can read the result.
const LINGERS: Duration = Duration::from_mins(1);

/// Time for which a temporary thread is kept after the timer for which it waits. In this time, workers that were down
/// start again, or retry a failed run.
const WAITS: Duration = Duration::from_hours(24);

/// Time for which a cancelled run waits for a worker with its graph, because such a worker can read what the run has
/// stored. After this time, any worker may end the run.
const GRAPH_WAIT: Duration = Duration::from_secs(5);

/// A thread with its runs that have not ended. A backend loads a queue and lets a [`ThreadChange`](super::ThreadChange)
/// modify it. Then the backend stores the rows that have [changed](Queue::changed).
#[derive(Clone, Debug)]
pub struct Queue {
    thread: ThreadRow,
    /// Sorted by number.
    live: Vec<Run>,
    touched: Vec<Uuid>,
    /// The other changes, such as ended runs and events.
    change: Change,
}

/// The rows that a backend must store after a change.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The new and changed runs.
    pub put: Vec<Run>,
    /// The runs to delete.
    pub removed: Vec<Uuid>,
    /// The events to append, in order.
    pub events: Vec<NewEvent>,
    /// The runs whose changes the store must undo. See [`RunCommit::undo`].
    pub undone: Vec<Uuid>,
    /// The ended runs for which the store has kept the data of an undo. The store deletes this data.
    pub settled: Vec<Uuid>,
    /// The webhook deliveries to add, as documents. The store does not replace documents that already exist.
    pub documents: Vec<Document>,
    /// The time from which a worker may claim a run of the thread, if the thread has no valid lease. Also the name of
    /// the graph that the worker must have. For a cancelled run, the name is [`CANCELLED`], because after some seconds
    /// any worker may claim the run. `None` if all runs have ended.
    pub ready: Option<(SystemTime, String)>,
    /// True if the log exceeds its limit. The store must then delete the oldest events and update the [`ThreadRow`].
    pub is_crowded: bool,
}

impl Queue {
    /// Creates the queue of a thread with its runs that have not ended.
    pub fn new(thread: ThreadRow, mut live: Vec<Run>) -> Self {
        live.sort_by_key(|run| run.number);
        Self { thread, live, touched: Vec::new(), change: Change::default() }
    }

    /// Returns the current row of the thread.
    pub const fn thread(&self) -> &ThreadRow {
        &self.thread
    }

    /// Returns the runs that have not ended, ordered by number.
    pub fn live(&self) -> &[Run] {
        &self.live
    }

    /// Returns the thread and the other rows to store.
    pub fn changed(mut self) -> (ThreadRow, Change) {
        self.thread.status = if self.live.is_empty() { self.thread.settled } else { ThreadStatus::Busy };
        self.change.ready = self.ready();
        self.thread.last_event += self.change.events.len() as u64;
        self.thread.event_bytes += self.change.events.iter().map(NewEvent::bytes).sum::<u64>();
        self.change.is_crowded = self.thread.event_bytes > LOG_BYTES;
        self.live.retain(|run| self.touched.contains(&run.id));
        self.change.put.append(&mut self.live);
        (self.thread, self.change)
    }

    /// Creates the row of the thread that a new run creates. Fails with [`RunsError::NoThread`] if the run creates no
    /// thread.
    pub(super) fn thread_for(run: &NewRun, now: SystemTime) -> Result<ThreadRow, RunsError> {
        let missing = || RunsError::NoThread { thread: run.thread.clone() };
        let new = run.new_thread.clone().ok_or_else(missing)?;
        // The thread of a detached run is a background thread, whose id `check_new_thread` rejects.
        if !run.request.detached {
            check_new_thread(&run.thread)?;
        }
        let mut thread = ThreadRow::new(NewThread { id: run.thread.clone(), ..new }, now);
        thread.temporary = run.temporary;
        Ok(thread)
    }

    pub(super) fn add(&mut self, new: NewRun, number: u64, now: SystemTime) -> Result<Run, RunsError> {
        if let Some(on) = &new.on {
            on.check(&self.thread)?;
        }
        let others: Vec<Uuid> = self.live.iter().map(|run| run.id).collect();
        match (new.multitask_strategy, others.first()) {
            (MultitaskStrategy::Reject, Some(other)) => {
                return Err(RunsError::Busy { thread: self.thread.id.clone(), run: *other });
            }
            (MultitaskStrategy::Interrupt, Some(_)) => drop(self.cancel(&others, Cancel::Interrupt, now)),
            (MultitaskStrategy::Rollback, Some(_)) => drop(self.cancel(&others, Cancel::Rollback, now)),
            _ => {}
        }
        self.check_answers(&new.request)?;
        let run = Run {
            id: new.id.unwrap_or_else(Uuid::new_v4),
            thread: new.thread,
            graph: new.graph,
            assistant: new.assistant,
            status: RunStatus::Pending,
            request: new.request,
            metadata: new.metadata,
            multitask_strategy: new.multitask_strategy,
            on_disconnect: new.on_disconnect,
            attempts: 0,
            entered: false,
            undoable: false,
            cancel: None,
            temporary: new.temporary,
            created: now,
            updated: now,
            starts: now.checked_add(new.after).unwrap_or(now),
            started: None,
            ended: None,
            error: None,
            output: None,
            number,
        };
        if !self.live.is_empty() && self.live.iter().chain([&run]).map(Run::request_bytes).sum::<u64>() > QUEUE_BYTES {
            return Err(RunsError::QueueFull { thread: run.thread, limit: QUEUE_BYTES });
        }
        // A run of the wrong graph fails, and must not change the graph of the thread.
        if !self.thread.metadata.contains_key("graph_id") {
            name_graph(&mut self.thread, &run);
        }
        self.thread.updated = now;
        self.live.push(run.clone());
        self.touch(run.id);
        Ok(run)
    }

    /// Refuses an answer to a question that a run answers already, or that an ended run has closed. Otherwise, both
    /// callers would believe that their answer counts.
    fn check_answers(&self, request: &Request) -> Result<(), RunsError> {
        if request.answers.is_empty() {
            return Ok(());
        }
        let (thread, answers) = (&self.thread, request.answers.iter().map(String::as_str).collect::<HashSet<_>>());
        let others = self.live.iter().filter(|run| run.cancel.is_none());
        let mut both = others.flat_map(|run| run.request.answers.iter().map(move |question| (run.id, question)));
        if let Some((run, question)) = both.find(|(_, question)| answers.contains(&***question)) {
            return Err(RunsError::Answered { thread: thread.id.clone(), question: question.clone(), run });
        }
        // A run that has not ended may still ask, and a run from a checkpoint answers the questions of this checkpoint.
        // The index knows the questions of a thread only if it knows the thread's values.
        let is_from_checkpoint = request.checkpoint.is_some() || !request.checkpoint_ns.is_empty();
        let is_known = self.live.is_empty() && thread.state_updated != thread.created;
        if is_from_checkpoint || !is_known || answers.is_subset(&thread.open_questions()) {
            return Ok(());
        }
        Err(RunsError::Stale { kind: "thread".to_owned(), id: thread.id.clone() })
    }

    /// Cancels those of these runs that have not ended, and returns them.
    pub(super) fn cancel(&mut self, runs: &[Uuid], action: Cancel, now: SystemTime) -> Vec<Run> {
        let mut cancelled = Vec::new();
        for id in runs {
            let Some(place) = self.live.iter().position(|run| run.id == *id) else { continue };
            // A run that was requeued may have stored something. The next worker that claims the run undoes or reports
            // it.
            if self.live[place].status == RunStatus::Running || self.live[place].has_stored() {
                let run = &mut self.live[place];
                run.cancel = Some(if run.cancel == Some(Cancel::Rollback) { Cancel::Rollback } else { action });
                run.updated = now;
                cancelled.push(run.clone());
                self.touch(*id);
                continue;
            }
            let mut end = RunEnd::new(*id, RunStatus::Interrupted);
            end.rollback = action == Cancel::Rollback;
            cancelled.extend(self.end_at(place, end, None, now));
        }
        cancelled
    }

    /// Returns the run that a worker with these graphs may claim now: one with an expired lease, or the first that is
    /// due.
    pub(super) fn head(&self, graphs: Option<&[String]>, now: SystemTime) -> Option<&Run> {
        let running = self.live.iter().find(|run| run.status == RunStatus::Running);
        let head = running.or_else(|| self.live.iter().find(|run| is_due(run, now)))?;
        let has = |name: &str| graphs.is_none_or(|graphs| graphs.iter().any(|graph| graph == name));
        let is_left = || head.cancel.is_some() && head.updated.checked_add(GRAPH_WAIT).is_some_and(|at| at <= now);
        (has(&head.graph) || (has(CANCELLED) && is_left())).then_some(head)
    }

    /// Starts the run that [`head`](Self::head) returns.
    pub(super) fn start(&mut self, graphs: Option<&[String]>, now: SystemTime) -> Option<Run> {
        let id = self.head(graphs, now)?.id;
        let run = self.live.iter_mut().find(|run| run.id == id)?;
        run.status = RunStatus::Running;
        run.attempts = run.attempts.saturating_add(1);
        let reclaimed = run.started.is_some();
        run.started = run.started.or(Some(now));
        run.updated = now;
        let run = run.clone();
        let start = LogEvent::Start { attempt: run.attempts, graph: run.graph.clone(), reclaimed };
        self.change.events.push(NewEvent::new(run.id, start));
        self.touch(id);
        Some(run)
    }

    /// Returns the run with this id if it has just ended. Returns `None` if its end deletes the run.
    pub(super) fn ended(&self, id: Uuid) -> Option<&Run> {
        self.change.put.iter().find(|run| run.id == id && run.ended.is_some())
    }

    /// Puts the run back into the queue. Its last attempt does not count.
    pub(super) fn requeue(&mut self, id: Uuid, now: SystemTime) {
        let Some(run) = self.live.iter_mut().find(|run| run.id == id && run.status == RunStatus::Running) else {
            return;
        };
        run.status = RunStatus::Pending;
        run.attempts = run.attempts.saturating_sub(1);
        run.updated = now;
        if run.request.detached {
            // The run waits for the run of its supervisor, which must be claimed first.
            self.thread.free_since = Some(now);
        }
        self.touch(id);
    }

    /// Applies the changes of the lease holder, except for the records, which stay in `settlement`.
    pub(super) fn settle(&mut self, settlement: &mut RunCommit, now: SystemTime) -> Result<(), RunsError> {
        self.change.events.append(&mut settlement.events);
        let lives = settlement.index.as_ref().map(|index| kept_for(index.due, now));
        let running = self.live.iter().find(|run| run.status == RunStatus::Running);
        let graph = running.map(|run| Value::from(&*run.graph));
        // The first records of a run contain its input.
        let (enters, keeps) = (!settlement.records.is_empty(), settlement.also.run.is_some());
        if let Some(run) = self.live.iter_mut().find(|run| run.status == RunStatus::Running)
            && ((enters && !run.entered) || (keeps && !run.undoable))
        {
            run.entered |= enters;
            run.undoable |= keeps;
            if run.entered {
                name_graph(&mut self.thread, run);
            }
            let id = run.id;
            self.touch(id);
        }
        if let Some(undone) = settlement.undo.take()
            && let Some(run) = self.live.iter_mut().find(|run| run.id == undone)
        {
            (run.entered, run.undoable) = (false, false);
            self.change.undone.push(undone);
            self.touch(undone);
        }
        if let Some(end) = settlement.end.take() {
            let place = self.live.iter().position(|run| run.id == end.run);
            let place = place.ok_or(RunsError::NoRun { run: end.run })?;
            // The caller of the cancellation relies on the rollback, even if the run ends before its worker notices it.
            let run = &self.live[place];
            if run.cancel == Some(Cancel::Rollback) && run.has_stored() && !end.rollback {
                return Err(RunsError::Cancelled { run: end.run });
            }
            self.end_at(place, end, lives, now);
        }
        if let Some(mut index) = settlement.index.take() {
            // A timer continues the thread with this request, so a failed run of another graph must not change it.
            if graph.is_some_and(|graph| self.thread.metadata.get("graph_id").is_some_and(|name| *name != graph)) {
                index.request = None;
            }
            self.thread.take(index, now);
        }
        Ok(())
    }

    /// Applies a patch of a caller. Returns [`RunsError::NoThread`] if the patch is for another thread.
    pub(super) fn patch(&mut self, patch: ThreadPatch, now: SystemTime) -> Result<(), RunsError> {
        patch.on.check(&self.thread)?;
        self.thread.patch(patch, now);
        Ok(())
    }

    /// Ends a run. `lives` is the time for which a temporary thread is kept. `None` keeps the time that is set.
    fn end_at(&mut self, place: usize, end: RunEnd, lives: Option<Duration>, now: SystemTime) -> Option<Run> {
        if place >= self.live.len() {
            return None;
        }
        let mut run = self.live.remove(place);
        (run.status, run.error, run.output) = (end.status, end.error, end.output);
        (run.updated, run.ended) = (now, Some(now));
        self.thread.updated = now;
        self.thread.free_since = Some(now);
        if run.status == RunStatus::Success {
            // A graph that stores its checkpoints elsewhere has stored no records here.
            name_graph(&mut self.thread, &run);
        }
        if self.thread.temporary {
            let lives = lives.or(self.thread.time_to_live).unwrap_or(LINGERS);
            if run.temporary || self.thread.time_to_live.is_some_and(|set| set < lives) {
                self.thread.time_to_live = Some(lives);
            }
        }
        let body = LogEvent::End { status: run.status, error: run.error.clone(), rollback: end.rollback };
        self.change.events.push(NewEvent::new(run.id, body));
        if end.rollback {
            self.change.removed.push(run.id);
            if run.has_stored() {
                self.change.undone.push(run.id);
            }
        } else {
            if run.undoable {
                self.change.settled.push(run.id);
            }
            self.change.documents.extend(delivery::documents_of(&run, now));
            self.change.put.push(run.clone());
        }
        Some(run)
    }

    /// Marks a run that has not ended as changed.
    fn touch(&mut self, run: Uuid) {
        if !self.touched.contains(&run) {
            self.touched.push(run);
        }
    }

    fn ready(&self) -> Option<(SystemTime, String)> {
        // Any worker may end a cancelled run.
        let graph_of = |run: &Run| if run.cancel.is_some() { CANCELLED.to_owned() } else { run.graph.clone() };
        if let Some(run) = self.live.iter().find(|run| run.status == RunStatus::Running) {
            return Some((run.updated, graph_of(run)));
        }
        let since = |run: &Run| self.thread.free_since.map_or(run.created, |free| free.max(run.created));
        let at_once = self.live.iter().find(|run| !is_delayed(run)).map(|run| (since(run), run));
        let later = self.live.iter().filter(|run| is_delayed(run)).min_by_key(|run| (run.starts, run.number));
        let later = later.map(|run| (run.starts.max(since(run)), run));
        let first = at_once.into_iter().chain(later).min_by_key(|(time, run)| (*time, run.number))?;
        // At that time, an older run with a delay may be due as well. It is then the first.
        Some((first.0, graph_of(self.head(None, first.0).unwrap_or(first.1))))
    }
}

/// Returns the time for which a temporary thread is kept if a timer continues it at `due`.
fn kept_for(due: Option<SystemTime>, now: SystemTime) -> Duration {
    due.map_or(LINGERS, |due| due.duration_since(now).unwrap_or_default().saturating_add(WAITS))
}

/// Names the graph and the assistant of a run in the metadata of its thread.
fn name_graph(thread: &mut ThreadRow, run: &Run) {
    thread.metadata.insert("graph_id".to_owned(), run.graph.clone().into());
    if let Some(assistant) = &run.assistant {
        thread.metadata.insert("assistant_id".to_owned(), assistant.clone().into());
    }
}

/// Returns true if a run begins later than it was added. Other runs are due at once, even if the clocks of machines
/// differ.
fn is_delayed(run: &Run) -> bool {
    run.starts > run.created
}

fn is_due(run: &Run, now: SystemTime) -> bool {
    run.status == RunStatus::Pending && (!is_delayed(run) || run.starts <= now)
}
