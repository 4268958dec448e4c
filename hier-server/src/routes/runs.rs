//! Creates, lists and deletes runs, and waits for their end.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::Path;
use axum::response::NoContent;
use futures_util::{StreamExt, stream};
use hier_core::runs::{RunQuery, RunStatus};
use schemars::JsonSchema;
use serde::Deserialize;

use super::disconnect::create_guarded;
use super::page::Page;
use super::run_plan::{ResponseMode, RunPlan};
use super::streams::{self, add_location};
use crate::answer::{As, Selected};
use crate::app::Caller;
use crate::auth::Action;
use crate::body::JsonBody;
use crate::error::ApiResult;
use crate::event_tail::RunWaiter;
use crate::fault::refused;
use crate::query::Query;
use crate::wire::object::{RunObject, RunOutput, run_statuses};
use crate::wire::run::RunCreate;

async fn start_in_background(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<As<RunObject>> {
    let run = RunPlan::for_client(thread.as_deref(), &body, ResponseMode::Background).start(&caller).await?;
    let mut response = As::json(&caller.app.run_object(&run));
    add_location(&mut response.0, &run, thread.is_some(), None);
    Ok(response)
}

pub(crate) async fn create(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<RunCreate>,
) -> ApiResult<As<RunObject>> {
    start_in_background(caller, Some(thread), body).await
}

pub(crate) async fn create_stateless(caller: Caller, JsonBody(body): JsonBody<RunCreate>) -> ApiResult<As<RunObject>> {
    start_in_background(caller, None, body).await
}

async fn start_and_wait(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<As<RunOutput>> {
    let plan = RunPlan::for_client(thread.as_deref(), &body, ResponseMode::Wait);
    let new = plan.check(&caller).await?;
    if let Some((run, guard)) = plan.inject(&caller, &new, new.on_disconnect).await? {
        let waiter = RunWaiter::new(&caller.app, &run.thread);
        return Ok(streams::respond_at_end(&caller, &run, guard, waiter));
    }
    // The waiter listens before the run exists, so that it cannot miss the end of the run.
    let waiter = RunWaiter::before_create(&caller.app, &new.thread);
    let (run, guard) = create_guarded(&caller.app, new).await?;
    Ok(streams::respond_at_end(&caller, &run, guard, waiter))
}

pub(crate) async fn wait(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<RunCreate>,
) -> ApiResult<As<RunOutput>> {
    start_and_wait(caller, Some(thread), body).await
}

pub(crate) async fn wait_stateless(caller: Caller, JsonBody(body): JsonBody<RunCreate>) -> ApiResult<As<RunOutput>> {
    start_and_wait(caller, None, body).await
}

/// Options of the list of a thread's runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RunsQuery {
    /// Maximum number of runs. Defaults to 10.
    limit: Option<usize>,
    /// Number of the newest runs to skip.
    offset: Option<usize>,
    /// Returns only runs with this status.
    #[schemars(schema_with = "run_statuses")]
    status: Option<RunStatus>,
    /// Fields to return. Defaults to all.
    #[schemars(with = "Vec<String>")]
    select: BTreeSet<String>,
}

pub(crate) async fn list(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<RunsQuery>,
) -> ApiResult<As<Vec<Selected<RunObject>>>> {
    let thread = caller.thread(&thread, Action::Read).await?;
    let mut runs = RunQuery::thread(thread.id);
    let page = Page::new(&caller, query.limit, query.offset, 10)?;
    (runs.limit, runs.offset) = (1, page.offset);
    runs.status.extend(query.status);
    let fields = (!query.select.is_empty()).then_some(query.select);
    Selected::<RunObject>::check(fields.as_ref())?;
    let found = stream::try_unfold((caller.app, runs), move |(app, mut runs)| {
        let fields = fields.clone();
        async move {
            let Some(run) = app.runs.runs(runs.clone()).await.map_err(refused)?.pop() else { return Ok(None) };
            (runs.offset, runs.before) = (0, Some(run.number));
            Ok(Some((Selected::of(&app.run_object(&run), fields.as_ref()), (app, runs))))
        }
    });
    As::streamed(found.take(page.limit)).await
}

pub(crate) async fn get(caller: Caller, Path((thread, run)): Path<(String, String)>) -> ApiResult<Json<RunObject>> {
    Ok(Json(caller.app.run_object(&caller.run(&thread, &run, Action::Read).await?)))
}

pub(crate) async fn delete(caller: Caller, Path((thread, run)): Path<(String, String)>) -> ApiResult<NoContent> {
    let run = caller.run(&thread, &run, Action::CreateRun).await?;
    caller.app.runs.remove_run(run.id).await.map_err(refused)?;
    Ok(NoContent)
}

/// Options of a request that waits for the end of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct JoinQuery {
    /// If true, the server cancels the run when the client disconnects.
    cancel_on_disconnect: bool,
}

pub(crate) async fn join(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<JoinQuery>,
) -> ApiResult<As<RunOutput>> {
    let run = caller.run(&thread, &run, Action::Read).await?;
    let guard = streams::guard(&caller, &run, query.cancel_on_disconnect).await?;
    let waiter = RunWaiter::new(&caller.app, &run.thread);
    Ok(streams::respond_at_end(&caller, &run, guard, waiter))
}
