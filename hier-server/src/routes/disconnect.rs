//! Cancels runs whose clients disconnect.

use std::sync::Arc;

use hier_core::runs::{Cancel, NewRun, OnDisconnect, Run};

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;

/// Cancels a run when the response is dropped before the run has ended.
pub(crate) struct DisconnectGuard {
    app: Arc<App>,
    run: Option<Run>,
}

impl DisconnectGuard {
    pub(crate) fn new(app: &Arc<App>, run: &Run, on_disconnect: OnDisconnect) -> Self {
        Self { app: app.clone(), run: (on_disconnect == OnDisconnect::Cancel).then(|| run.clone()) }
    }

    /// Releases the run, so that dropping the guard no longer cancels it.
    pub(crate) fn disarm(&mut self) {
        self.run = None;
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        // If the server stops, no client has disconnected, and the run is returned to the queue.
        let Some(run) = self.run.take().filter(|_| !self.app.stopping.is_cancelled()) else { return };
        let app = self.app.clone();
        tokio::spawn(async move {
            // A later run may have the same id.
            let cancelled = match app.same_run(&run).await {
                Ok(Some(now)) if now.status.is_live() => {
                    app.runs.cancel_runs(&run.thread, &[run.id], Cancel::Interrupt).await.map(drop).map_err(refused)
                }
                found => found.map(drop),
            };
            if let Err(error) = cancelled {
                tracing::warn!(%error, run = %run.id, "failed to cancel a run after its client disconnected: the run continues");
            }
        });
    }
}

/// Adds a run with its guard. If the client disconnects while the run is added, the run is cancelled, too.
pub(super) async fn create_guarded(app: &Arc<App>, new: NewRun) -> ApiResult<(Run, DisconnectGuard)> {
    let (owned, on_disconnect) = (app.clone(), new.on_disconnect);
    let add = async move {
        let run = owned.create_run(new).await.map_err(refused)?;
        let guard = DisconnectGuard::new(&owned, &run, on_disconnect);
        Ok((run, guard))
    };
    if on_disconnect != OnDisconnect::Cancel {
        return add.await;
    }
    // The task continues if this future is dropped, and then drops the guard.
    app.tasks.spawn(add).await.map_err(|error| ApiError::internal(&error))?
}
