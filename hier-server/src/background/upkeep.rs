//! Deletes what has expired: threads that were made for one run, threads and items whose time to live has passed.

use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;

use crate::app::App;

const EVERY: Duration = Duration::from_secs(30);

pub(super) async fn run_until(app: Arc<App>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        if let Ok(admin) = app.runs.admin()
            && let Err(error) = admin.sweep().await
        {
            tracing::warn!(%error, "threads that have expired could not be deleted");
        }
        if let Err(error) = app.store.sweep().await {
            tracing::warn!(%error, "items that have expired could not be deleted");
        }
        if let Some(age) = app.limits.history
            && let Err(error) = app.runs.prune_runs(age).await
        {
            tracing::warn!(%error, "old events and runs could not be deleted");
        }
    }
}
