//! Follows the log of a thread: what is there, and then what comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hier_core::runs::{Ends, EventQuery, EventRow, Listener, Run, RunsError};
use uuid::Uuid;

use crate::app::App;
use crate::error::ApiResult;
use crate::fault::refused;

/// How long to wait for the bell before looking again: it is a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Reads the events of a thread, or of one of its runs, one after the other.
pub(crate) struct Follow {
    app: Arc<App>,
    thread: String,
    run: Option<Uuid>,
    after: u64,
    listener: Listener,
    read: VecDeque<EventRow>,
}

impl Follow {
    /// Follows a thread from the event after this number on.
    pub(crate) fn new(app: Arc<App>, thread: &str, run: Option<Uuid>, after: u64) -> Self {
        // It listens before it first looks, so that nothing is missed in between.
        let listener = app.runs.bell().thread(thread);
        Self { app, thread: thread.to_owned(), run, after, listener, read: VecDeque::new() }
    }

    /// The next event, once it is there; none if the run has ended and nothing is left to read, or is gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        loop {
            if let Some(row) = self.read.pop_front() {
                return Ok(Some(row));
            }
            let is_over = self.is_over().await?;
            if self.look().await? {
                continue;
            }
            if is_over {
                return Ok(None);
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, self.listener.rung()).await;
        }
    }

    /// Reads what is there. False if nothing is.
    async fn look(&mut self) -> ApiResult<bool> {
        let mut query = EventQuery::after(&*self.thread, self.after);
        query.run = self.run;
        let page = match self.app.runs.events(query).await {
            // It may be made yet: clients listen before they start the first run.
            Err(RunsError::NoThread { .. }) => return Ok(false),
            page => page.map_err(refused)?,
        };
        // Events of other runs need not be looked at again.
        let last = page.events.last().map_or(self.after, |row| row.number);
        self.after = last.max(self.after);
        self.read.extend(page.events);
        Ok(!self.read.is_empty())
    }

    /// Whether no more can come: asked before it is looked, so that what was told at the end is read.
    async fn is_over(&self) -> ApiResult<bool> {
        let Some(run) = self.run else { return Ok(false) };
        let run = self.app.runs.run(run).await.map_err(refused)?;
        Ok(run.is_none_or(|run| !run.status.is_live()))
    }
}

/// Waits for the end of a run.
pub(crate) struct Ending {
    listener: Ends,
    /// Whether it may have ended before anybody listened.
    is_unknown: bool,
}

impl Ending {
    /// Of a run that is there. It is looked at first.
    pub(crate) fn of(app: &App, thread: &str) -> Self {
        Self { listener: app.runs.bell().ends(thread), is_unknown: true }
    }

    /// Of a run that is added after this, and so cannot have ended yet.
    pub(crate) fn of_new(app: &App, thread: &str) -> Self {
        Self { is_unknown: false, ..Self::of(app, thread) }
    }

    /// The run once it has ended; none if it was deleted. Cancel safe.
    pub(crate) async fn wait(&mut self, app: &App, run: Uuid) -> ApiResult<Option<Arc<Run>>> {
        loop {
            if !std::mem::replace(&mut self.is_unknown, true) {
                let _ = tokio::time::timeout(LOOK_AGAIN, self.listener.rung()).await;
            }
            // If it ended in this process, its row need not be read.
            if let Some(row) = self.listener.ended(run) {
                return Ok(Some(row));
            }
            match app.runs.run(run).await.map_err(refused)? {
                None => return Ok(None),
                Some(row) if !row.status.is_live() => return Ok(Some(Arc::new(row))),
                Some(_) => self.is_unknown = false,
            }
        }
    }
}
