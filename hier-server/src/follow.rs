//! Follows the log of a thread: the events that exist, and then those that come.
//!
//! A [`Follow`] belongs to one thread, not to its id. It ends when the thread is deleted, and never reads from a later thread with the
//! same id, which may belong to another user.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use hier_core::runs::{EventPage, EventQuery, EventRow, Listener, Run, RunEnds, RunsError, ThreadRow};
use uuid::Uuid;

use crate::app::{App, Caller};
use crate::auth::Action;
use crate::error::ApiResult;
use crate::fault::refused;

/// How long to wait for the bell before looking again: it is a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Waits for a thread that may not exist yet.
pub(crate) struct Arrival {
    caller: Caller,
    thread: String,
    listener: Listener,
}

impl Arrival {
    pub(crate) fn new(caller: Caller, thread: &str) -> Self {
        let listener = caller.app.runs.notifier().thread(thread);
        Self { caller, thread: thread.to_owned(), listener }
    }

    /// The thread, once one exists that the caller may read. Cancel safe.
    pub(crate) async fn wait(&mut self) -> ApiResult<ThreadRow> {
        loop {
            match self.caller.thread(&self.thread, Action::Read).await {
                Err(error) if error.status == StatusCode::NOT_FOUND => {}
                found => return found,
            }
            // The bell of another user's thread would ring for each of its events, so this does not listen to it.
            if self.caller.app.runs.thread(&self.thread).await.map_err(refused)?.is_some() {
                tokio::time::sleep(LOOK_AGAIN).await;
            } else {
                let _ = tokio::time::timeout(LOOK_AGAIN, self.listener.changed()).await;
            }
        }
    }
}

/// Reads the events of a thread, or of one of its runs, one after the other.
pub(crate) struct Follow {
    app: Arc<App>,
    thread: String,
    /// Creation time of the thread, which distinguishes it from other threads with its id.
    created: Option<SystemTime>,
    /// The id and the number of the run.
    run: Option<(Uuid, u64)>,
    after: u64,
    listener: Listener,
    read: VecDeque<EventRow>,
}

/// The result of a look at the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Events,
    Nothing,
    /// There are no more events to come.
    End,
}

impl Follow {
    /// Follows a thread from the event after this number on.
    pub(crate) fn of_thread(app: Arc<App>, thread: &ThreadRow, after: u64) -> Self {
        Self { created: Some(thread.created), ..Self::new(app, &thread.id, None, after) }
    }

    /// Follows a run from its first event on.
    pub(crate) fn of_run(app: Arc<App>, run: &Run) -> Self {
        Self::new(app, &run.thread, Some((run.id, run.number)), 0)
    }

    fn new(app: Arc<App>, thread: &str, run: Option<(Uuid, u64)>, after: u64) -> Self {
        // It listens before it first looks, so that nothing is missed in between.
        let listener = app.runs.notifier().thread(thread);
        Self { app, thread: thread.to_owned(), created: None, run, after, listener, read: VecDeque::new() }
    }

    /// Returns the next event once it exists. Returns none if the run has ended and no events are left, or if the thread was deleted.
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        loop {
            if let Some(row) = self.read.pop_front() {
                return Ok(Some(row));
            }
            let look = if self.created.is_none() { self.look_first().await? } else { self.look().await? };
            match look {
                Look::Events => {}
                Look::Nothing => drop(tokio::time::timeout(LOOK_AGAIN, self.listener.changed()).await),
                Look::End => return Ok(None),
            }
        }
    }

    /// Looks at the log of a run whose thread is not known yet. The thread that is read is the run's if the run exists after that.
    async fn look_first(&mut self) -> ApiResult<Look> {
        let Some(page) = self.page().await? else { return Ok(Look::End) };
        let Some(run) = self.row().await? else { return Ok(Look::End) };
        self.created = Some(page.created);
        match self.take(page) {
            Look::Nothing if !run.status.is_live() => self.look().await,
            look => Ok(look),
        }
    }

    async fn look(&mut self) -> ApiResult<Look> {
        // Read before the events, so that the last ones are among them.
        let is_over = self.run.is_some() && self.row().await?.is_none_or(|run| !run.status.is_live());
        let Some(page) = self.page().await? else { return Ok(Look::End) };
        match self.take(page) {
            Look::Nothing if is_over => Ok(Look::End),
            look => Ok(look),
        }
    }

    /// The events after the last one that was read; none if the thread is gone.
    async fn page(&self) -> ApiResult<Option<EventPage>> {
        let mut query = EventQuery::after(&*self.thread, self.after);
        query.run = self.run.map(|(id, _)| id);
        let page = match self.app.runs.events(query).await {
            Err(RunsError::NoThread { .. }) => return Ok(None),
            page => page.map_err(refused)?,
        };
        Ok(Some(page).filter(|page| self.created.is_none_or(|created| created == page.created)))
    }

    fn take(&mut self, page: EventPage) -> Look {
        // Events of other runs need not be looked at again.
        let last = page.events.last().map_or(self.after, |row| row.number);
        self.after = last.max(self.after);
        self.read.extend(page.events);
        if self.read.is_empty() { Look::Nothing } else { Look::Events }
    }

    /// The run that is followed; none if it was deleted.
    async fn row(&self) -> ApiResult<Option<Run>> {
        let Some((id, number)) = self.run else { return Ok(None) };
        let found = self.app.runs.run(id).await.map_err(refused)?;
        Ok(found.filter(|run| run.number == number))
    }
}

/// Waits for the end of a run.
pub(crate) struct Ending {
    listener: RunEnds,
    /// Whether it may have ended before anybody listened.
    is_unknown: bool,
}

impl Ending {
    /// Waits for a run that exists. Checks its status first.
    pub(crate) fn of(app: &App, thread: &str) -> Self {
        Self { listener: app.runs.notifier().ends(thread), is_unknown: true }
    }

    /// Of a run that is added after this, and so cannot have ended yet.
    pub(crate) fn of_new(app: &App, thread: &str) -> Self {
        Self { is_unknown: false, ..Self::of(app, thread) }
    }

    /// The run once it has ended; none if it was deleted. Cancel safe.
    pub(crate) async fn wait(&mut self, app: &App, run: &Run) -> ApiResult<Option<Arc<Run>>> {
        loop {
            if !std::mem::replace(&mut self.is_unknown, true) {
                let _ = tokio::time::timeout(LOOK_AGAIN, self.listener.changed()).await;
            }
            // If it ended in this process, its row need not be read.
            if let Some(row) = self.listener.ended(run.id).filter(|row| row.number == run.number) {
                return Ok(Some(row));
            }
            match app.runs.run(run.id).await.map_err(refused)?.filter(|row| row.number == run.number) {
                None => return Ok(None),
                Some(row) if !row.status.is_live() => return Ok(Some(Arc::new(row))),
                Some(_) => self.is_unknown = false,
            }
        }
    }
}
