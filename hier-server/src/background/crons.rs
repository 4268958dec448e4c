//! Fires the crons that are due.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::CancellationToken;
use hier_core::runs::{Cron, Crons, RunStore, RunsError};

use crate::schedule::Schedule;

/// How often it looks: the runs of a cron begin so much late at most.
const EVERY: Duration = Duration::from_secs(1);

/// Fires until the token is cancelled. Any number of processes may: of those that try, one adds a run.
pub(crate) async fn run_until(store: Arc<dyn RunStore>, stop: CancellationToken) {
    loop {
        if let Err(error) = fire(&*store).await {
            tracing::warn!(%error, "cannot look for crons that are due; trying again later");
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
            Ok(Some(run)) => tracing::debug!(cron = cron.id, run = %run.id, "a cron was fired"),
            Ok(None) => {}
            Err(error) => tracing::warn!(cron = cron.id, %error, "a cron could not be fired; trying again later"),
        }
    }
    Ok(())
}

/// When the next run of a cron is due.
pub(crate) fn next(cron: &Cron, now: SystemTime) -> Option<SystemTime> {
    let next = Schedule::parse(&cron.schedule, cron.timezone.as_deref()).ok()?.next(now)?;
    cron.ends.is_none_or(|ends| next <= ends).then_some(next)
}
