//! Reads the log of a thread: first the existing events, then new events as they occur.
//!
//! An [`EventTail`] ends when its thread is deleted. It never reads from a later thread with the same id, because that
//! thread may belong to another user. An event [`LogEvent::Lagged`] replaces events that were deleted before they were
//! read, so that no event is lost silently.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use hier_core::runs::{
    EventPage, EventQuery, EventRow, Listener, LogEvent, NewEvent, Run, RunEnds, RunsError, ThreadRow,
};
use uuid::Uuid;

use crate::app::{App, Caller};
use crate::auth::Action;
use crate::error::ApiResult;
use crate::fault::refused;

/// Delay after which the log is read again without a notification, because notifications can be lost.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// Number of events in the first read of a log. Later reads have as many events as fit into [`PAGE_BYTES`].
const FIRST_PAGE: usize = 16;
/// Maximum number of events in a read.
const LARGEST_PAGE: usize = 1_000;
/// Intended size of the events in a read, in bytes. A client that reads slowly keeps the events of one read in memory.
const PAGE_BYTES: u64 = 1 << 20;

/// Waits for a thread that may not exist yet.
pub(crate) struct ThreadArrival {
    caller: Caller,
    thread: String,
    listener: Listener,
}

impl ThreadArrival {
    pub(crate) fn new(caller: Caller, thread: &str) -> Self {
        let listener = caller.app.runs.notifier().thread(thread);
        Self { caller, thread: thread.to_owned(), listener }
    }

    /// Returns the thread once it exists and the caller may read it. Cancel safe.
    pub(crate) async fn wait(&mut self) -> ApiResult<ThreadRow> {
        loop {
            match self.caller.thread(&self.thread, Action::Read).await {
                Err(error) if error.status == StatusCode::NOT_FOUND => {}
                found => return found,
            }
            // A thread of another user would send a notification for each of its events, so this branch does not
            // listen.
            if self.caller.app.runs.thread(&self.thread).await.map_err(refused)?.is_some() {
                tokio::time::sleep(READ_AGAIN).await;
            } else {
                let _ = tokio::time::timeout(READ_AGAIN, self.listener.changed()).await;
            }
        }
    }
}

/// Reads the events of a thread, or of one of its runs, in order.
pub(crate) struct EventTail {
    app: Arc<App>,
    thread: String,
    /// Creation time of the thread, which distinguishes the thread from later threads with the same id.
    created: Option<SystemTime>,
    /// The id and the number of the run.
    run: Option<(Uuid, u64)>,
    after: u64,
    /// Number of the last event that the client knows. A gap counts only later events.
    known: u64,
    /// Number of events in the next read.
    limit: usize,
    listener: Listener,
    read: VecDeque<EventRow>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LogRead {
    Events,
    Nothing,
    /// The log will not have further events.
    End,
}

impl EventTail {
    /// Reads the events of a thread after this number.
    pub(crate) fn of_thread(app: Arc<App>, thread: &ThreadRow, after: u64) -> Self {
        Self { created: Some(thread.created), ..Self::new(app, &thread.id, None, after) }
    }

    /// Reads the events of a run from the first one on.
    pub(crate) fn of_run(app: Arc<App>, run: &Run) -> Self {
        Self::new(app, &run.thread, Some((run.id, run.number)), 0)
    }

    fn new(app: Arc<App>, thread: &str, run: Option<(Uuid, u64)>, after: u64) -> Self {
        // The listener exists before the first read, so that no event in between is missed.
        let listener = app.runs.notifier().thread(thread);
        let (thread, read) = (thread.to_owned(), VecDeque::new());
        Self { app, thread, created: None, run, after, known: after, limit: FIRST_PAGE, listener, read }
    }

    /// Counts only deleted events after this number as missed, because the client knows the others.
    pub(crate) fn known_until(self, known: u64) -> Self {
        Self { known, ..self }
    }

    /// Returns the next event once it exists. Returns `None` if the thread was deleted, or after the last event of a
    /// run. Cancel safe.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        loop {
            if let Some(row) = self.read.pop_front() {
                return Ok(Some(row));
            }
            let read = if self.created.is_none() { self.read_first().await? } else { self.read_log().await? };
            match read {
                LogRead::Events => {}
                LogRead::Nothing => drop(tokio::time::timeout(READ_AGAIN, self.listener.changed()).await),
                LogRead::End => return Ok(None),
            }
        }
    }

    /// Reads the log of a run when the creation time of its thread is not known yet. If the run still exists after the
    /// read, the log belongs to the run's thread.
    async fn read_first(&mut self) -> ApiResult<LogRead> {
        let Some(page) = self.page().await? else { return Ok(LogRead::End) };
        let Some(run) = self.row().await? else { return Ok(LogRead::End) };
        self.created = Some(page.created);
        if page.events.is_empty() {
            // The run may have started after the read of the page.
            return if run.status.is_live() { Ok(LogRead::Nothing) } else { self.read_log().await };
        }
        Ok(self.accept(page, Some(&run)))
    }

    async fn read_log(&mut self) -> ApiResult<LogRead> {
        // The status is read before the events, so that the events of an ended run are complete.
        let run = self.row().await?;
        let is_over = self.run.is_some() && run.as_ref().is_none_or(|run| !run.status.is_live());
        let Some(page) = self.page().await? else { return Ok(LogRead::End) };
        match self.accept(page, run.as_ref()) {
            LogRead::Nothing if is_over => Ok(LogRead::End),
            read => Ok(read),
        }
    }

    /// Reads the events after the last one that was read. Returns `None` if the thread no longer exists.
    async fn page(&self) -> ApiResult<Option<EventPage>> {
        let mut query = EventQuery::after(&*self.thread, self.after).limit(self.limit);
        query.run = self.run.map(|(id, _)| id);
        let page = match self.app.runs.events(query).await {
            Err(RunsError::NoThread { .. }) => return Ok(None),
            page => page.map_err(refused)?,
        };
        Ok(Some(page).filter(|page| self.created.is_none_or(|created| created == page.created)))
    }

    fn accept(&mut self, page: EventPage, run: Option<&Run>) -> LogRead {
        let bytes: u64 = page.events.iter().map(|row| row.event.bytes()).sum();
        if let Some(fitting) = (page.events.len() as u64 * PAGE_BYTES).checked_div(bytes) {
            self.limit = usize::try_from(fitting).unwrap_or(LARGEST_PAGE).clamp(1, LARGEST_PAGE);
        }
        let gap = self.gap(&page, run);
        self.read.extend(gap);
        self.read.extend(page.events);
        self.after = self.read.back().map_or(self.after, |row| row.number);
        if self.read.is_empty() { LogRead::Nothing } else { LogRead::Events }
    }

    /// Returns an event that replaces the events that were deleted before the events of this page. `run` is the row of
    /// the run. If the page is empty, the row was read before the page.
    fn gap(&self, page: &EventPage, run: Option<&Run>) -> Option<EventRow> {
        let first = page.events.first();
        // A page may have events that were deleted after it was read.
        let last_missing = page.gone.min(first.map_or(u64::MAX, |row| row.number.saturating_sub(1)));
        let missed = last_missing.checked_sub(self.after.max(self.known)).filter(|missed| *missed > 0)?;
        if self.run.is_some() && self.after == 0 && is_complete(run, first) {
            return None;
        }
        let lagged = NewEvent::new(self.run.map(|(id, _)| id), LogEvent::Lagged { missed });
        Some(EventRow::new(last_missing, SystemTime::now(), lagged))
    }

    /// Reads the row of the run. Returns `None` if the run was deleted.
    async fn row(&self) -> ApiResult<Option<Run>> {
        let Some((id, number)) = self.run else { return Ok(None) };
        let found = self.app.runs.run(id).await.map_err(refused)?;
        Ok(found.filter(|run| run.number == number))
    }
}

/// Returns true if no event of a run was deleted before `first`, the first event of the run that the log contains. The
/// deleted events of the log then belong to other runs.
fn is_complete(run: Option<&Run>, first: Option<&EventRow>) -> bool {
    match first.map(|row| &row.event.body) {
        Some(LogEvent::Start { reclaimed, .. }) => !reclaimed,
        // A run that was cancelled before its start has no other event.
        Some(LogEvent::End { .. }) | None => run.is_none_or(|run| run.started.is_none()),
        Some(_) => false,
    }
}

pub(crate) struct RunWaiter {
    listener: RunEnds,
    /// True if the run may have ended before the listener existed.
    may_have_ended: bool,
}

impl RunWaiter {
    /// Creates a waiter for a run that exists. The waiter first checks the status of the run.
    pub(crate) fn new(app: &App, thread: &str) -> Self {
        Self { listener: app.runs.notifier().ends(thread), may_have_ended: true }
    }

    /// Creates a waiter for a run that will be added after this call, and so cannot have ended.
    pub(crate) fn before_create(app: &App, thread: &str) -> Self {
        Self { may_have_ended: false, ..Self::new(app, thread) }
    }

    /// Returns the run once it has ended, or `None` if the run was deleted. Cancel safe.
    pub(crate) async fn wait(&mut self, app: &App, run: &Run) -> ApiResult<Option<Arc<Run>>> {
        loop {
            if !std::mem::replace(&mut self.may_have_ended, true) {
                let _ = tokio::time::timeout(READ_AGAIN, self.listener.changed()).await;
            }
            // If the run ended in this process, the listener has its row.
            if let Some(row) = self.listener.ended(run.id).filter(|row| row.number == run.number) {
                return Ok(Some(row));
            }
            match app.runs.run(run.id).await.map_err(refused)?.filter(|row| row.number == run.number) {
                None => return Ok(None),
                Some(row) if !row.status.is_live() => return Ok(Some(Arc::new(row))),
                Some(_) => self.may_have_ended = false,
            }
        }
    }
}
