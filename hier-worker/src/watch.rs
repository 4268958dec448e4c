//! Runs alongside a run: renews its lease, stores its events, and detects reasons to stop it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::WorkerContext;
use hier_checkpoint::checkpoint::guard::reported;
use hier_core::checkpoint::{Lease, SaverError};
use hier_core::runs::{Cancel, Run, RunLog};

/// The reason why a run has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    Cancelled(Cancel),
    Timeout,
    Shutdown,
    /// Another worker has claimed the thread, or the thread was deleted.
    Lost,
}

/// Resolves when the run has to stop.
pub(super) async fn stop_reason(
    shared: &WorkerContext,
    run: &Run,
    heartbeat: &LeaseHeartbeat,
    limit: Duration,
    stop: &CancellationToken,
) -> StopCause {
    let timeout = async {
        if limit == Duration::MAX {
            std::future::pending::<()>().await;
        }
        sleep(limit).await;
    };
    tokio::select! {
        biased;
        () = heartbeat.lost() => StopCause::Lost,
        cause = row_changed(shared, run) => cause,
        () = timeout => StopCause::Timeout,
        () = stop.cancelled() => StopCause::Shutdown,
    }
}

/// Renews the lease of a run until this value is dropped. The renewal has its own task, because a busy run may keep
/// other futures of the run's task from being polled.
pub(super) struct LeaseHeartbeat {
    lost: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl LeaseHeartbeat {
    pub(super) async fn start(shared: &WorkerContext, lease: &Lease) -> Self {
        let (store, duration, lease) = (shared.store.clone(), shared.lease_duration, lease.clone());
        let lost = CancellationToken::new();
        let superseded = lost.clone();
        let beating = async move {
            loop {
                sleep(duration / 3).await;
                match reported("renew", store.renew(&lease)).await {
                    Ok(()) => {}
                    Err(SaverError::Superseded { .. }) => return superseded.cancel(),
                    // The lease lasts a while longer, and the next commit detects its loss.
                    Err(error) => {
                        tracing::warn!(thread = %lease.thread, %error, "failed to renew the lease of a run's thread; \
                            trying again before the lease expires");
                    }
                }
            }
        };
        let heartbeat = Self { lost, _task: AbortOnDropHandle::new(tokio::spawn(beating)) };
        // Other threads cannot steal a newly spawned task from this thread. So the task must start before the run,
        // which may keep this thread busy.
        tokio::task::yield_now().await;
        heartbeat
    }

    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Delay before the first check for a cancellation that arrived before the listener existed. Most runs end within the
/// delay.
const FIRST_CHECK: Duration = Duration::from_millis(100);

/// Returns the reason to stop once the row of the run contains a cancellation or was deleted.
async fn row_changed(shared: &WorkerContext, run: &Run) -> StopCause {
    let mut bell = shared.store.notifier().ends(&run.thread);
    let mut wait = shared.poll_interval.min(FIRST_CHECK);
    loop {
        let _ = timeout(wait, bell.changed()).await;
        wait = shared.poll_interval;
        match shared.store.run(run.id).await {
            Ok(Some(Run { cancel: Some(action), .. })) => return StopCause::Cancelled(action),
            // A run that has not ended is deleted only with its thread.
            Ok(None) => return StopCause::Lost,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(run = %run.id, %error, "failed to check whether a run was cancelled or deleted; trying again");
            }
        }
        // Runs of the thread that end before they start also ring the bell. The pause limits the number of reads.
        sleep(shared.flush_interval).await;
    }
}

/// True while events are being stored.
#[derive(Default)]
pub(super) struct FlushState(AtomicBool);

impl FlushState {
    fn set(&self, storing: bool) {
        self.0.store(storing, Ordering::Relaxed);
    }

    /// Polls [`flush`] while it stores events, because dropping it then would lose these events.
    pub(super) async fn finish(&self, mut flush: Pin<&mut impl Future<Output = ()>>) {
        poll_fn(|cx| {
            if self.0.load(Ordering::Relaxed) && flush.as_mut().poll(cx).is_pending() {
                return if self.0.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) };
            }
            Poll::Ready(())
        })
        .await;
    }
}

/// Stores events soon after they occur. Never returns.
pub(super) async fn flush(shared: &WorkerContext, log: &RunLog, state: &FlushState) {
    loop {
        log.events_arrived().await;
        sleep(shared.flush_interval).await;
        state.set(true);
        let stored = log.flush().await;
        state.set(false);
        if let Err(error) = stored {
            // The next commit detects errors that end the run.
            tracing::warn!(thread = %log.lease().thread, %error, "failed to store events of a run: the events are lost");
            sleep(shared.poll_interval).await;
        }
    }
}
