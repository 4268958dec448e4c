//! Crons, which add runs by a schedule.

use std::borrow::Cow;
use std::time::SystemTime;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::NoContent;
use hier_core::runs::{Assistant, Cron, Crons, MultitaskStrategy, NewCron, Request, ThreadIs, ThreadRow};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::run_plan::{ResolvedRun, ResponseMode, RunPlan};
use crate::app::{Caller, matches};
use crate::auth::{Action, Resource};
use crate::body::{JsonBody, from_value, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::reserved;
use crate::schedule::{self, Schedule};
use crate::time::iso;
use crate::wire::message_paths::MessagePaths;
use crate::wire::run::{OnCompletion, RunCreate};

/// Maximum number of crons per user.
const MOST: usize = 1_000;
/// Maximum size of a cron's JSON, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// The field for the id of the cron in the configuration of its runs.
pub(crate) const CRON_ID: &str = "cron_id";
/// Maximum number of attempts to change a cron that other requests change at the same time.
const ATTEMPTS: usize = 16;

/// The fields of a cron that do not belong to its runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "CronSchedule")]
struct CronBody {
    schedule: Option<String>,
    timezone: Option<String>,
    end_time: Option<String>,
    enabled: Option<bool>,
    on_run_completed: Option<OnCompletion>,
}

/// A cron and its runs, in the form that the client sent. The server stores this form, and reads the fields again
/// whenever the cron is changed.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct CronCreate(Value);

impl JsonSchema for CronCreate {
    fn schema_name() -> Cow<'static, str> {
        "CronCreate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parts = [generator.subschema_for::<CronBody>(), generator.subschema_for::<RunCreate>()];
        json_schema!({ "description": "A cron and its runs.", "allOf": parts, "required": ["schedule"] })
    }
}

/// Changes of a cron, in the form that the client sent. Other fields stay the same.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct CronPatch(Map<String, Value>);

impl JsonSchema for CronPatch {
    fn schema_name() -> Cow<'static, str> {
        "CronPatch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut run = RunCreate::json_schema(generator);
        // All fields are optional.
        run.remove("required");
        let parts = [generator.subschema_for::<CronBody>(), run];
        json_schema!({ "description": "Changes of a cron. Other fields stay the same.", "allOf": parts })
    }
}

/// A schedule, and the runs that it adds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cron")]
pub(crate) struct CronObject {
    cron_id: String,
    assistant_id: Option<String>,
    thread_id: Option<String>,
    user_id: String,
    end_time: Option<String>,
    schedule: String,
    timezone: Option<String>,
    /// The body that created the cron, with all later changes.
    payload: Option<Value>,
    next_run_date: Option<String>,
    metadata: Map<String, Value>,
    /// Determines what happens to the thread of each run when the run ends. Null if all runs share a thread.
    on_run_completed: Option<OnCompletion>,
    enabled: bool,
    created_at: String,
    updated_at: String,
}

pub(super) fn object(caller: &Caller, cron: &Cron) -> CronObject {
    let on_run_completed = if cron.temporary { OnCompletion::Delete } else { OnCompletion::Keep };
    CronObject {
        cron_id: cron.id.clone(),
        assistant_id: cron.assistant.clone(),
        thread_id: cron.thread.clone(),
        user_id: cron.user.clone(),
        end_time: cron.ends.map(iso_short),
        schedule: cron.schedule.clone(),
        timezone: cron.timezone.clone(),
        payload: shown(&caller.app.message_paths(&cron.graph), cron),
        next_run_date: cron.next.map(iso_short),
        metadata: cron.metadata.clone(),
        on_run_completed: cron.thread.is_none().then_some(on_run_completed),
        enabled: cron.enabled,
        created_at: iso(cron.created),
        updated_at: iso(cron.updated),
    }
}

/// Returns the body without secret channels. This hides the channels that were secret when the cron was created, and
/// the channels that are secret now.
fn shown(message_paths: &MessagePaths, cron: &Cron) -> Option<Value> {
    let mut payload = cron.payload.clone()?;
    if let Some(input) = payload.get_mut("input") {
        cron.request.hide(input);
        message_paths.hide(input);
    }
    if let Some(command) = payload.get_mut("command") {
        cron.request.hide_command(command);
        message_paths.hide_command(command);
    }
    Some(payload)
}

/// Formats a time. Omits fractions of a second that are zero.
fn iso_short(time: SystemTime) -> String {
    iso(time).replace(".000000", "")
}

/// Reads the body of a cron's runs from its payload. Omits the cron's id, which the server has added to the payload.
pub(crate) fn run_of(mut payload: Value) -> ApiResult<RunCreate> {
    if let Some(configurable) = payload.pointer_mut("/config/configurable").and_then(Value::as_object_mut) {
        configurable.remove(CRON_ID);
        if configurable.is_empty() {
            drop(payload["config"].as_object_mut().and_then(|config| config.remove("configurable")));
        }
    }
    if payload.get("config").and_then(Value::as_object).is_some_and(Map::is_empty) {
        drop(payload.as_object_mut().and_then(|payload| payload.remove("config")));
    }
    from_value(payload)
}

/// The runs that a cron adds.
struct CronRuns {
    assistant: Option<String>,
    assistant_created: Option<SystemTime>,
    graph: String,
    request: Request,
    strategy: MultitaskStrategy,
    /// Fields that the metadata of the thread must contain.
    filter: Map<String, Value>,
}

/// Checks the runs of a cron. If the runs of the cron in `paused` have become invalid, for example because their
/// assistant was deleted, returns them unchanged, so that a client can pause the cron.
async fn resolve(caller: &Caller, plan: RunPlan<'_>, paused: Option<&Cron>) -> ApiResult<CronRuns> {
    match (plan.resolve(caller).await, paused) {
        (Ok(ResolvedRun { assistant, request, strategy, filter }), _) => {
            let Assistant { id, graph, created, .. } = assistant;
            let (assistant, assistant_created) = (Some(id), Some(created));
            Ok(CronRuns { assistant, assistant_created, graph, request, strategy, filter })
        }
        (Err(error), Some(cron))
            if [StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY].contains(&error.status) =>
        {
            let filter = caller.may(Resource::Threads, Action::CreateRun).await?;
            let Cron { assistant, assistant_created, graph, request, multitask_strategy: strategy, .. } = cron.clone();
            Ok(CronRuns { assistant, assistant_created, graph, request, strategy, filter })
        }
        (Err(error), _) => Err(error),
    }
}

/// Builds a cron from the payload that the client sent, including all changes. `same` is the stored cron if the changes
/// do not affect its runs.
async fn cron_of(
    caller: &Caller,
    cron_id: &str,
    thread: Option<String>,
    mut payload: Value,
    same: Option<&Cron>,
) -> ApiResult<Cron> {
    let body: CronBody = from_value(payload.clone())?;
    let run = run_of(payload.clone())?;
    let missing = "`schedule` is missing: write it like `*/5 * * * *`";
    let text = body.schedule.ok_or_else(|| ApiError::invalid(missing))?;
    let parsed = Schedule::parse(&text, body.timezone.as_deref()).map_err(ApiError::invalid)?;
    let now = SystemTime::now();
    let ends = body.end_time.as_deref().map(|text| {
        let wrong = || ApiError::invalid(format!("`end_time`: `{text}` is not an ISO 8601 time in or after 1970"));
        schedule::time(text).ok_or_else(wrong)
    });
    let ends = ends.transpose()?;
    let completion = body.on_run_completed.or(run.on_completion).unwrap_or_default();
    let temporary = thread.is_none() && completion == OnCompletion::Delete;
    let plan = RunPlan::for_client(thread.as_deref(), &run, ResponseMode::Background);
    let disabled = same.filter(|_| body.enabled == Some(false));
    let CronRuns { assistant, assistant_created, graph, mut request, strategy, mut filter } =
        resolve(caller, plan, disabled).await?;
    if thread.is_none() {
        // Each run creates its thread, so the caller needs the right to create threads.
        filter.extend(caller.may(Resource::Threads, Action::Create).await?);
    }
    let configurable = request.config.entry("configurable").or_insert_with(|| json!({}));
    if let Some(configurable) = configurable.as_object_mut() {
        configurable.insert(CRON_ID.to_owned(), cron_id.into());
    }
    if let Some(fields) = payload.as_object_mut() {
        fields.insert("assistant_id".to_owned(), assistant.clone().into());
        let config = fields.entry("config").or_insert_with(|| json!({}));
        if config.is_null() {
            *config = json!({});
        }
        if config.get("configurable").is_none_or(Value::is_null) {
            config["configurable"] = json!({});
        }
        config["configurable"][CRON_ID] = cron_id.into();
    }
    let next = parsed.next(now).filter(|next| ends.is_none_or(|ends| *next <= ends));
    let mut cron = NewCron::new(cron_id, graph, text, next, request).cron;
    (cron.assistant, cron.assistant_created) = (assistant, assistant_created);
    (cron.thread, cron.timezone, cron.ends, cron.temporary) = (thread, body.timezone, ends, temporary);
    cron.enabled = body.enabled.unwrap_or(true);
    cron.multitask_strategy = strategy;
    cron.thread_metadata = filter;
    cron.metadata = run.metadata.unwrap_or_default();
    cron.payload = Some(payload);
    cron.user.clone_from(&caller.user.identity);
    Ok(cron)
}

fn check_size(payload: &Value) -> ApiResult<()> {
    let bytes = payload.to_string().len();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "the cron takes {bytes} bytes of JSON, more than the limit of {MOST_BYTES}: send less input"
    )))
}

/// Refuses a strategy in a request that crons do not support.
fn check_strategy(request: &Map<String, Value>) -> ApiResult<()> {
    if request.get("multitask_strategy").is_none_or(|strategy| *strategy != "inject") {
        return Ok(());
    }
    let known = "use `enqueue`, `interrupt`, `rollback` or `reject`";
    Err(ApiError::invalid(format!("`multitask_strategy`: a cron cannot `inject`: {known}")))
}

/// Refuses a schedule that is never due, such as the 30th of February.
fn check_due(cron: &Cron) -> ApiResult<()> {
    let before = if cron.ends.is_some() { " before `end_time`" } else { "" };
    let never = || ApiError::invalid(format!("`schedule`: `{}` is never due{before}: change it", cron.schedule));
    cron.next.map(|_| ()).ok_or_else(never)
}

async fn create_cron(caller: Caller, thread: Option<ThreadRow>, mut payload: Value) -> ApiResult<Json<CronObject>> {
    let filter = caller.may(Resource::Crons, Action::Create).await?;
    check_size(&payload)?;
    if let Some(request) = payload.as_object() {
        check_strategy(request)?;
    }
    remove_metadata(&mut payload, filter.keys());
    let own = Crons::of(&*caller.app.runs).count_of(&caller.user.identity).await.map_err(refused)?;
    if own >= MOST {
        return Err(ApiError::conflict(format!("this user has {MOST} crons, which is the limit: delete some")));
    }
    let id = thread.as_ref().map(|thread| thread.id.clone());
    let mut cron = cron_of(&caller, &Uuid::now_v7().to_string(), id, payload, None).await?;
    if cron.enabled {
        check_due(&cron)?;
    }
    cron.metadata.extend(filter);
    let mut new = NewCron::new("", "", "", None, cron.request.clone());
    new.cron = cron;
    // The thread whose access was checked.
    new.on = thread.as_ref().map(ThreadIs::this).unwrap_or_default();
    Ok(Json(object(&caller, &Crons::of(&*caller.app.runs).create(new).await.map_err(refused)?)))
}

pub(crate) async fn create(
    caller: Caller,
    JsonBody(CronCreate(payload)): JsonBody<CronCreate>,
) -> ApiResult<Json<CronObject>> {
    create_cron(caller, None, payload).await
}

pub(crate) async fn create_on(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(CronCreate(payload)): JsonBody<CronCreate>,
) -> ApiResult<Json<CronObject>> {
    let thread = caller.thread(&thread, Action::CreateRun).await?;
    create_cron(caller, Some(thread), payload).await
}

/// Returns the cron. Fails with 404 if it does not exist, or if the caller may not carry out this action on it.
async fn find(caller: &Caller, cron: &str, action: Action) -> ApiResult<Cron> {
    let cron = id("cron", cron)?.to_string();
    let filter = caller.may(Resource::Crons, action).await?;
    let found = Crons::of(&*caller.app.runs).get(&cron).await.map_err(refused)?;
    found
        .filter(|found| matches(&found.metadata, &filter))
        .ok_or_else(|| ApiError::not_found(format!("Cron with ID {cron} not found")))
}

pub(crate) async fn get(caller: Caller, Path(cron): Path<String>) -> ApiResult<Json<CronObject>> {
    Ok(Json(object(&caller, &find(&caller, &cron, Action::Read).await?)))
}

/// The fields that do not change what the runs of a cron do.
const SCHEDULE: [&str; 6] = ["schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata"];

/// Returns the entries of the metadata that no client has sent, such as the owner.
fn metadata_of_server(cron: &Cron) -> Map<String, Value> {
    let sent = cron.payload.as_ref().and_then(|payload| payload.get("metadata"));
    let is_sent = |key: &str, value: &Value| sent.and_then(|sent| sent.get(key)) == Some(value);
    let of_server = cron.metadata.iter().filter(|(key, value)| !is_sent(key, value));
    of_server.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Removes entries of the server from the metadata of a payload. Clients send these entries back when they change the
/// metadata that they received.
fn remove_metadata<'a>(payload: &mut Value, keys: impl Iterator<Item = &'a String>) {
    if let Some(metadata) = payload.get_mut("metadata").and_then(Value::as_object_mut) {
        keys.for_each(|key| drop(metadata.remove(key)));
    }
}

/// Keeps a changed cron, and the threads of its runs, with its owner. If another user has changed what the runs do,
/// they run as this user, because a user cannot choose what runs as another.
fn keep_owner(new: &mut Cron, old: &Cron, does_the_same: bool) {
    new.metadata.extend(metadata_of_server(old));
    new.thread_metadata.extend(old.thread_metadata.clone());
    if does_the_same
        && new.user != old.user
        && let Some(Value::Object(configurable)) = new.request.config.get_mut("configurable")
    {
        configurable.remove(reserved::USER);
        let user = old.request.config.get("configurable").and_then(|old| old.get(reserved::USER));
        configurable.extend(user.map(|user| (reserved::USER.to_owned(), user.clone())));
    }
    new.user.clone_from(&old.user);
}

pub(crate) async fn patch(
    caller: Caller,
    Path(cron): Path<String>,
    JsonBody(CronPatch(patch)): JsonBody<CronPatch>,
) -> ApiResult<Json<CronObject>> {
    check_strategy(&patch)?;
    let crons = Crons::of(&*caller.app.runs);
    for _ in 0..ATTEMPTS {
        let old = find(&caller, &cron, Action::Update).await?;
        let thread = match &old.thread {
            Some(thread) => Some(caller.thread(thread, Action::CreateRun).await?),
            None => None,
        };
        if thread.as_ref().is_some_and(|thread| old.thread_created != Some(thread.created)) {
            return Err(ApiError::conflict(
                "the thread of the cron was deleted: delete the cron, and create another one",
            ));
        }
        let mut payload = old.payload.clone().unwrap_or_else(|| json!({}));
        if let Some(fields) = payload.as_object_mut() {
            // The thread and the assistant cannot be changed.
            fields.extend(patch.clone().into_iter().filter(|(name, _)| name != "assistant_id" && name != "thread_id"));
        }
        check_size(&payload)?;
        let filter = caller.may(Resource::Crons, Action::Update).await?;
        remove_metadata(&mut payload, metadata_of_server(&old).keys().chain(filter.keys()));
        let does_the_same = patch.keys().all(|name| SCHEDULE.contains(&&**name));
        let same = Some(&old).filter(|_| does_the_same);
        let mut new = cron_of(&caller, &old.id, old.thread.clone(), payload, same).await?;
        keep_owner(&mut new, &old, does_the_same);
        (new.created, new.revision) = (old.created, old.revision);
        if let Some(thread) = &thread {
            new.bind(thread);
        }
        new.metadata.extend(filter);
        let is_same = (&new.schedule, &new.timezone, new.ends) == (&old.schedule, &old.timezone, old.ends);
        if is_same && new.enabled == old.enabled {
            new.next = old.next;
        } else if new.enabled {
            check_due(&new)?;
        }
        if crons.replace(&new).await.map_err(refused)? {
            return Ok(Json(object(&caller, &find(&caller, &cron, Action::Read).await?)));
        }
    }
    Err(ApiError::conflict("other requests keep changing the cron: try again"))
}

pub(crate) async fn delete(caller: Caller, Path(cron): Path<String>) -> ApiResult<NoContent> {
    let cron = find(&caller, &cron, Action::Delete).await?;
    Crons::of(&*caller.app.runs).delete(&cron.id).await.map_err(refused)?;
    Ok(NoContent)
}
