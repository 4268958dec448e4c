//! What happens beside a run that is being done: its lease is kept, its events are stored, and somebody may want it to stop.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::shared::Shared;
use hier_checkpoint::checkpoint::guard::reported;
use hier_core::checkpoint::{Lease, SaverError};
use hier_core::runs::{Cancel, Run, RunLog};

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
    heartbeat: &Heartbeat,
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
        () = heartbeat.lost() => Stop::Lost,
        action = cancelled(shared, run) => Stop::Cancelled(action),
        () = in_time => Stop::Timeout,
        () = stop.cancelled() => Stop::Shutdown,
    }
}

/// Keeps the lease of a run until it is dropped. In a task of its own: a run may do so much at a time, and wait for so little, that
/// nothing beside it gets its turn.
pub(super) struct Heartbeat {
    lost: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Heartbeat {
    pub(super) async fn begin(shared: &Shared, lease: &Lease) -> Self {
        let (store, lasts, lease, lost) = (shared.store.clone(), shared.lasts, lease.clone(), CancellationToken::new());
        let told = lost.clone();
        let beating = async move {
            loop {
                sleep(lasts / 3).await;
                match reported("renew", store.renew(&lease)).await {
                    Ok(()) => {}
                    Err(SaverError::Superseded { .. }) => return told.cancel(),
                    // It runs for another while; the next commit tells.
                    Err(error) => {
                        tracing::warn!(thread = %lease.thread, %error, "failed to renew the lease of a run's thread");
                    }
                }
            }
        };
        let heartbeat = Self { lost, _task: AbortOnDropHandle::new(tokio::spawn(beating)) };
        // What was spawned last waits for this thread, and no other takes it: it has to begin before the run does.
        tokio::task::yield_now().await;
        heartbeat
    }

    /// Resolves once the lease is lost.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// When it is first looked whether a run is to be cancelled, if nobody tells: it may have been before anybody listened. Most runs have
/// ended by then.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// Resolves once the run's row says that it is to be cancelled.
async fn cancelled(shared: &Shared, run: &Run) -> Cancel {
    let mut bell = shared.store.notifier().ends(&run.thread);
    let mut wait = shared.poll.min(FIRST_LOOK);
    loop {
        let _ = timeout(wait, bell.changed()).await;
        wait = shared.poll;
        match shared.store.run(run.id).await {
            Ok(Some(Run { cancel: Some(action), .. })) => return action,
            Ok(_) => {}
            Err(error) => tracing::warn!(run = %run.id, %error, "cannot see whether a run was cancelled"),
        }
        // Runs that are added to the thread, and end unbegun, ring too: no more often than so.
        sleep(shared.flush).await;
    }
}

/// Whether events are being stored at this moment.
#[derive(Default)]
pub(super) struct Storing(AtomicBool);

impl Storing {
    fn set(&self, storing: bool) {
        self.0.store(storing, Ordering::Relaxed);
    }

    /// Goes on with [`flush`] until nothing is being stored: what it was cut off from storing would be nowhere.
    pub(super) async fn end(&self, mut flush: Pin<&mut impl Future<Output = ()>>) {
        poll_fn(|cx| {
            if self.0.load(Ordering::Relaxed) && flush.as_mut().poll(cx).is_pending() {
                return if self.0.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) };
            }
            Poll::Ready(())
        })
        .await;
    }
}

/// Stores events for ever, soon after they were told.
pub(super) async fn flush(shared: &Shared, log: &RunLog, storing: &Storing) {
    loop {
        log.events_arrived().await;
        sleep(shared.flush).await;
        storing.set(true);
        let stored = log.flush().await;
        storing.set(false);
        if let Err(error) = stored {
            // What ends the run is told by its next commit.
            tracing::warn!(thread = %log.lease().thread, %error, "events of a run could not be stored");
            sleep(shared.poll).await;
        }
    }
}
