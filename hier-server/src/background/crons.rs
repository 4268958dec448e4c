use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::CancellationToken;
use hier_core::runs::{Cron, Crons, RunStore, RunsError};

use crate::schedule::Schedule;

/// Interval between two checks for due crons. The run of a cron is delayed by up to this time.
const EVERY: Duration = Duration::from_secs(1);

/// Fires due crons until the token is cancelled. If several processes fire the same cron at once, only one of them adds
/// a run.
pub(crate) async fn run_until(store: Arc<dyn RunStore>, stop: CancellationToken) {
    loop {
        if let Err(error) = fire(&*store).await {
            tracing::warn!(%error, "failed to look for due crons; trying again later");
        }
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

async fn fire(store: &dyn RunStore) -> Result<(), RunsError> {
    let (crons, now) = (Crons::of(store), SystemTime::now());
    for cron in crons.due(now).await? {
        match crons.fire(&cron, now, next(&cron, now)).await {
            Ok(Some(run)) => tracing::debug!(cron = cron.id, run = %run.id, "fired a cron"),
            Ok(None) => {}
            Err(error) => tracing::warn!(cron = cron.id, %error, "failed to fire a cron; trying again later"),
        }
    }
    Ok(())
}

pub(crate) fn next(cron: &Cron, now: SystemTime) -> Option<SystemTime> {
    let next = Schedule::parse(&cron.schedule, cron.timezone.as_deref()).ok()?.next(now)?;
    cron.ends.is_none_or(|ends| next <= ends).then_some(next)
}
