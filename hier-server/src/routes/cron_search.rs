//! Lists and counts crons.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use axum::Json;
use hier_core::runs::{Cron, CronQuery, Crons};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::crons::{CronObject, object};
use super::page::{self, Page, unknown_sort};
use crate::answer::{As, Selected};
use crate::app::{Caller, matches};
use crate::auth::{Action, Resource};
use crate::body::{OptionalBody, SearchFilter};
use crate::error::ApiResult;
use crate::fault::refused;

/// A search for crons.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "CronSearch")]
pub(crate) struct CronSearchBody {
    assistant_id: Option<String>,
    thread_id: Option<Uuid>,
    enabled: Option<bool>,
    metadata: Option<SearchFilter>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    sort_order: Option<String>,
    #[schemars(with = "Option<Vec<String>>")]
    select: Option<BTreeSet<String>>,
}

impl CronSearchBody {
    async fn find(&self, caller: &Caller) -> ApiResult<Vec<Cron>> {
        let filter = caller.may(Resource::Crons, Action::Search).await?;
        let mut query = CronQuery::default();
        query.metadata = self.metadata.clone().unwrap_or_default().0;
        query.thread = self.thread_id.map(|thread| thread.to_string());
        query.enabled = self.enabled;
        if let Some(name) = &self.assistant_id {
            query.assistant = Some(caller.assistant_or_graph(name).await?.id);
        }
        let mut found = Crons::of(&*caller.app.runs).search(&query).await.map_err(refused)?;
        found.retain(|cron| matches(&cron.metadata, &filter));
        Ok(found)
    }

    fn sort(&self, found: &mut [Cron]) -> ApiResult<()> {
        let by: fn(&Cron, &Cron) -> Ordering = match self.sort_by.as_deref().unwrap_or("created_at") {
            "created_at" => |a, b| a.created.cmp(&b.created),
            "updated_at" => |a, b| a.updated.cmp(&b.updated),
            "next_run_date" => |a, b| a.next.cmp(&b.next),
            "end_time" => |a, b| a.ends.cmp(&b.ends),
            "cron_id" => |a, b| a.id.cmp(&b.id),
            "assistant_id" => |a, b| a.assistant.cmp(&b.assistant),
            "thread_id" => |a, b| a.thread.cmp(&b.thread),
            other => {
                let known = "cron_id, assistant_id, thread_id, next_run_date, end_time, created_at or updated_at";
                return Err(unknown_sort(other, known));
            }
        };
        page::sort(found, by, self.sort_order.as_deref())
    }
}

pub(crate) async fn search(
    caller: Caller,
    OptionalBody(body): OptionalBody<CronSearchBody>,
) -> ApiResult<As<Vec<Selected<CronObject>>>> {
    let page = Page::new(&caller, body.limit, body.offset, 10)?;
    Selected::<CronObject>::check(body.select.as_ref())?;
    let mut found = body.find(&caller).await?;
    body.sort(&mut found)?;
    let found = found.iter().skip(page.offset).take(page.probe());
    Ok(page.answer(found.map(|cron| Selected::of(&object(&caller, cron), body.select.as_ref())).collect()))
}

pub(crate) async fn count(caller: Caller, OptionalBody(body): OptionalBody<CronSearchBody>) -> ApiResult<Json<usize>> {
    Ok(Json(body.find(&caller).await?.len()))
}
