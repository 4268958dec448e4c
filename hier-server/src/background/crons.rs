use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::CancellationToken;
use hier_core::runs::{Assistant, Assistants, Cron, Crons, RunsError};
use serde_json::{Map, Value};

use crate::app::App;
use crate::reserved::USER;
use crate::routes::crons::{CRON_ID, run_of};
use crate::routes::run_plan::{config, context};
use crate::schedule::Schedule;

/// Interval between two checks for due crons. The run of a cron is delayed by up to this time.
const EVERY: Duration = Duration::from_secs(1);

/// Fires due crons until the token is cancelled. If several processes fire the same cron at once, only one of them adds
/// a run.
pub(crate) async fn run_until(app: Arc<App>, stop: CancellationToken) {
    loop {
        if let Err(error) = fire(&app).await {
            tracing::warn!(%error, "failed to look for due crons; trying again later");
        }
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

async fn fire(app: &App) -> Result<(), RunsError> {
    let (crons, now) = (Crons::of(&*app.runs), SystemTime::now());
    for mut cron in crons.due(now).await? {
        if let Err(error) = configure(app, &mut cron).await {
            tracing::warn!(
                cron = cron.id,
                %error,
                "failed to read the assistant of a cron; the run has the stored configuration"
            );
        }
        match crons.fire(&cron, now, next(&cron, now)).await {
            Ok(Some(run)) => tracing::debug!(cron = cron.id, run = %run.id, "fired a cron"),
            Ok(None) => {}
            Err(error) => tracing::warn!(cron = cron.id, %error, "failed to fire a cron; trying again later"),
        }
    }
    Ok(())
}

/// Applies the latest version of the cron's assistant to the next run. Without the assistant, or if the assistant has
/// another graph by now, the configuration of the cron stays the same. The default assistant of a graph may have been
/// created again, but no user can replace it.
async fn configure(app: &App, cron: &mut Cron) -> Result<(), RunsError> {
    let (Some(id), Some(payload)) = (&cron.assistant, &cron.payload) else { return Ok(()) };
    let is_same = |assistant: &Assistant| {
        let is_default = app.default_assistants().contains(id);
        assistant.graph == cron.graph
            && (is_default || cron.assistant_created.is_none_or(|created| created == assistant.created))
    };
    let assistant = Assistants::of(&*app.runs).get(id).await?.filter(is_same);
    let (Some(assistant), Ok(body)) = (assistant, run_of(payload.clone())) else { return Ok(()) };
    let mut latest = config(&body, &assistant);
    cron.request.context = context(&body, &assistant, &latest);
    // The server has added these fields to the configuration of the client.
    let added = cron.request.config.get("configurable").and_then(Value::as_object).into_iter().flatten();
    let added: Map<String, Value> = added
        .filter(|(name, _)| [USER, CRON_ID].contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let configurable = latest.entry("configurable").or_insert_with(|| Map::new().into());
    if let Some(configurable) = configurable.as_object_mut() {
        configurable.extend(added);
    }
    cron.request.config = latest;
    Ok(())
}

pub(crate) fn next(cron: &Cron, now: SystemTime) -> Option<SystemTime> {
    let next = Schedule::parse(&cron.schedule, cron.timezone.as_deref()).ok()?.next(now)?;
    cron.ends.is_none_or(|ends| next <= ends).then_some(next)
}
