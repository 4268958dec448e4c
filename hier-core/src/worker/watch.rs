//! What happens beside a run that is being done: its lease is kept, its events are stored, and somebody may want it to stop.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::checkpoint::{Lease, SaverError};
use crate::runs::{Cancel, Run, RunLog};

/// Why a run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody cancelled it.
    Cancelled(Cancel),
    /// It took too long.
    Timeout,
    /// The worker ends.
    Shutdown,
    /// Somebody else has claimed the thread, or it was deleted.
    Lost,
}

/// Resolves once the run is to stop.
pub(super) async fn stopped(
    shared: &Shared,
    run: &Run,
    lease: &Lease,
    limit: Duration,
    stop: &CancellationToken,
) -> Stop {
    let in_time = async {
        if limit == Duration::MAX {
            std::future::pending::<()>().await;
        }
        sleep(limit).await;
    };
    tokio::select! {
        biased;
        () = lost(shared, lease) => Stop::Lost,
        action = cancelled(shared, run) => Stop::Cancelled(action),
        () = in_time => Stop::Timeout,
        () = stop.cancelled() => Stop::Shutdown,
    }
}

/// Keeps the lease; resolves once it is lost.
pub(super) async fn lost(shared: &Shared, lease: &Lease) {
    loop {
        sleep(shared.lasts / 3).await;
        match shared.store.renew(lease).await {
            Ok(()) => {}
            Err(SaverError::Superseded { .. }) => return,
            // It runs for another while; the next commit tells.
            Err(error) => tracing::warn!(thread = %lease.thread, %error, "failed to renew the lease of a run's thread"),
        }
    }
}

/// Resolves once the run's row says that it is to be cancelled.
async fn cancelled(shared: &Shared, run: &Run) -> Cancel {
    let mut bell = shared.store.bell().thread(&run.thread);
    loop {
        match shared.store.run(run.id).await {
            Ok(Some(Run { cancel: Some(action), .. })) => return action,
            Ok(_) => {}
            Err(error) => tracing::warn!(run = %run.id, %error, "cannot see whether a run was cancelled"),
        }
        // Each commit of the run itself rings too: no more often than so.
        sleep(shared.flush).await;
        let _ = timeout(shared.poll, bell.rung()).await;
    }
}

/// Stores events for ever, soon after they were told.
pub(super) async fn flush(shared: &Shared, log: &RunLog) {
    loop {
        log.told().await;
        sleep(shared.flush).await;
        if let Err(error) = log.flush().await {
            // What ends the run is told by its next commit.
            tracing::warn!(thread = %log.lease().thread, %error, "events of a run could not be stored");
            sleep(shared.poll).await;
        }
    }
}
