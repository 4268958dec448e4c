//! The server itself: whether it lives, what it can do, what it counts.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hier_core::runs::{RunQuery, RunStatus};
use serde_json::{Value, json};

use crate::app::App;
use crate::body::Query;
use crate::error::ApiResult;
use crate::fault::refused;

pub(crate) async fn ok(State(app): State<Arc<App>>, query: Query) -> ApiResult<Json<Value>> {
    if query.flag("check_db")? {
        app.runs.runs(RunQuery::default().live()).await.map_err(refused)?;
    }
    Ok(Json(json!({ "ok": true })))
}

/// The version of hier, and the flags that clients look at.
pub(crate) async fn info() -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "server": "hier",
        "flags": {
            "assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false,
        },
        "host": { "kind": "self-hosted", "project_id": null, "host_revision_id": null, "revision_id": null, "tenant_id": null },
    }))
}

pub(crate) async fn metrics(State(app): State<Arc<App>>, query: Query) -> ApiResult<Response> {
    let mut live = RunQuery::default().live();
    live.limit = 10_000;
    let live = app.runs.runs(live).await.map_err(refused)?;
    let running = live.iter().filter(|run| run.status == RunStatus::Running).count();
    let pending = live.len().saturating_sub(running);
    if query.get("format") == Some("json") {
        let body = json!({ "queue": { "n_pending": pending, "n_running": running }, "api": app.metrics.json() });
        return Ok(Json(body).into_response());
    }
    let queue = format!(
        "# HELP hier_runs Runs that have not ended.\n# TYPE hier_runs gauge\n\
         hier_runs{{status=\"pending\"}} {pending}\nhier_runs{{status=\"running\"}} {running}\n"
    );
    let text = queue + &app.metrics.text();
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
