//! Deletes expired data: threads and items whose time to live has passed, and old events and runs.

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
            tracing::warn!(%error, "failed to delete expired threads; trying again later");
        }
        if let Err(error) = app.store.sweep().await {
            tracing::warn!(%error, "failed to delete expired items of the store; trying again later");
        }
        if let Some(age) = app.limits.history
            && let Err(error) = app.runs.prune_runs(age).await
        {
            tracing::warn!(%error, "failed to delete old events and runs; trying again later");
        }
    }
}
