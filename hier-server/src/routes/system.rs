//! Reports the liveness, version and metrics of the server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hier_core::runs::{Run, RunQuery, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::App;
use crate::error::ApiResult;
use crate::fault::refused;
use crate::query::Query;

/// Options of the liveness check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct OkQuery {
    /// If true, also checks the database.
    check_db: bool,
}

/// The response of a live server.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ok")]
pub(crate) struct Liveness {
    ok: bool,
}

pub(crate) async fn ok(State(app): State<Arc<App>>, Query(query): Query<OkQuery>) -> ApiResult<Json<Liveness>> {
    if query.check_db {
        app.runs.run(Uuid::nil()).await.map_err(refused)?;
    }
    Ok(Json(Liveness { ok: true }))
}

/// A description of the server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Info {
    version: &'static str,
    server: &'static str,
    /// Features, by the names that LangGraph's clients know.
    flags: Value,
    host: Value,
}

pub(crate) async fn info() -> Json<Info> {
    Json(Info {
        version: env!("CARGO_PKG_VERSION"),
        server: "hier",
        flags: json!({
            "assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false,
        }),
        host: json!({
            "kind": "self-hosted", "project_id": null, "host_revision_id": null, "revision_id": null, "tenant_id": null,
        }),
    })
}

/// Statistics of the runs that have not ended.
struct QueueStats {
    running: usize,
    pending: usize,
    /// Waiting times of the pending runs that are due, shortest first.
    waits: Vec<Duration>,
    /// The longest waiting time of a run that waits only for a worker, and not for another run of its thread.
    unblocked: Option<Duration>,
}

impl QueueStats {
    fn of(live: &[Run], now: SystemTime) -> Self {
        let (running, mut pending): (Vec<&Run>, Vec<&Run>) =
            live.iter().partition(|run| run.status == RunStatus::Running);
        pending.sort_unstable_by_key(|run| run.number);
        let mut busy: HashSet<&str> = running.iter().map(|run| run.thread.as_str()).collect();
        let (mut waits, mut unblocked) = (Vec::new(), None);
        for run in &pending {
            // A delayed run is not due yet.
            let Ok(waited) = now.duration_since(run.starts) else { continue };
            waits.push(waited);
            if busy.insert(&run.thread) {
                unblocked = unblocked.max(Some(waited));
            }
        }
        waits.sort_unstable();
        Self { running: running.len(), pending: pending.len(), waits, unblocked }
    }

    fn json(&self) -> Value {
        let seconds = |wait: Option<&Duration>| wait.map(Duration::as_secs_f64);
        json!({
            "n_pending": self.pending,
            "n_running": self.running,
            "pending_runs_wait_time_max_secs": seconds(self.waits.last()),
            "pending_runs_wait_time_med_secs": seconds(self.waits.get(self.waits.len() / 2)),
            "pending_unblocked_runs_wait_time_max_secs": seconds(self.unblocked.as_ref()),
        })
    }

    fn text(&self) -> String {
        let waited = self.unblocked.unwrap_or_default().as_secs_f64();
        format!(
            "# HELP hier_runs Runs that have not ended.\n# TYPE hier_runs gauge\n\
             hier_runs{{status=\"pending\"}} {}\nhier_runs{{status=\"running\"}} {}\n\
             # HELP hier_runs_waiting_seconds The waiting time of the run that currently waits longest for a free worker.\n\
             # TYPE hier_runs_waiting_seconds gauge\nhier_runs_waiting_seconds {waited}\n",
            self.pending, self.running
        )
    }
}

/// Options of the metrics.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MetricsQuery {
    /// Format of the metrics: Prometheus' text format or `json`. Defaults to Prometheus'.
    format: MetricsFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MetricsFormat {
    #[default]
    Prometheus,
    Json,
}

pub(crate) async fn metrics(State(app): State<Arc<App>>, Query(query): Query<MetricsQuery>) -> ApiResult<Response> {
    let mut live = RunQuery::default().live();
    live.limit = 10_000;
    let queue = QueueStats::of(&app.runs.runs(live).await.map_err(refused)?, SystemTime::now());
    if query.format == MetricsFormat::Json {
        return Ok(Json(json!({ "queue": queue.json(), "api": app.metrics.json() })).into_response());
    }
    let text = queue.text() + &app.metrics.text();
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
