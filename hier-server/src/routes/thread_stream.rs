//! The stream of a thread: the events of all of its runs.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::Path;
use hier_core::runs::{EventRow, LogEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::streams::{Place, Since};
use crate::answer::Streamed;
use crate::app::{App, Caller};
use crate::auth::Action;
use crate::error::ApiResult;
use crate::feed::{self, Feed};
use crate::follow::Follow;
use crate::query::Query;
use crate::stream::sse::frame;
use crate::stream::translate::{Told, Translator};

/// What a client is told of a thread.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    runs: bool,
    lifecycle: bool,
    states: bool,
}

/// What is told of a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ThreadStreamQuery {
    /// `run_modes` unless given.
    stream_modes: Vec<Kind>,
    /// Another name of the same, which Python's client writes.
    stream_mode: Vec<Kind>,
}

/// A kind of events of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ThreadStreamMode")]
enum Kind {
    RunModes,
    Lifecycle,
    StateUpdate,
}

impl Wanted {
    fn of(query: &ThreadStreamQuery) -> Self {
        let named: Vec<Kind> = query.stream_modes.iter().chain(&query.stream_mode).copied().collect();
        let has = |kind| named.contains(&kind);
        Self {
            runs: named.is_empty() || has(Kind::RunModes),
            lifecycle: has(Kind::Lifecycle),
            states: has(Kind::StateUpdate),
        }
    }
}

/// The events of all runs of a thread. It ends with the connection, or with the thread.
struct ThreadStream {
    app: Arc<App>,
    thread: String,
    follow: Follow,
    wanted: Wanted,
    runs: HashMap<Uuid, Translator>,
    after: Place,
}

impl Feed for ThreadStream {
    type Item = EventRow;

    async fn next(&mut self) -> ApiResult<Option<EventRow>> {
        self.follow.next().await
    }

    async fn tell(&mut self, row: EventRow, told: &mut feed::Told) -> ControlFlow<()> {
        for (part, Told { event, data }) in self.events(&row).await.into_iter().enumerate() {
            let place = Place(row.number, part.saturating_add(1));
            if place > self.after {
                told.push_back(frame(&event, &data, Some(&place.id())));
            }
        }
        ControlFlow::Continue(())
    }
}

impl ThreadStream {
    /// What a row becomes for this client.
    async fn events(&mut self, row: &EventRow) -> Vec<Told> {
        let Some(run) = row.event.run else {
            let is_wanted = self.wanted.states && matches!(row.event.body, LogEvent::StateUpdate { .. });
            let update = is_wanted.then(|| Told { event: row.event.mode().to_owned(), data: row.event.body.data() });
            return update.into_iter().collect();
        };
        if !self.runs.contains_key(&run) {
            let Some(found) = self.app.run_of(&self.thread, run).await else { return Vec::new() };
            let places = self.app.places(&found.graph);
            let options = found.request.options.clone();
            let translator = Translator::new(found, places, options.stream_mode, options.stream_subgraphs);
            self.runs.insert(run, translator);
        }
        let Some(translator) = self.runs.get_mut(&run) else { return Vec::new() };
        let mut told = translator.event(row);
        let is_wanted = self.wanted.runs || (self.wanted.lifecycle && matches!(row.event.body, LogEvent::Start { .. }));
        if !is_wanted {
            told.clear();
        }
        if matches!(row.event.body, LogEvent::End { .. }) {
            if self.wanted.runs
                && let Some(run) = self.app.run_of(&self.thread, run).await
            {
                told.extend(translator.end(&run));
            }
            if self.wanted.runs || self.wanted.lifecycle {
                told.push(Told { event: "metadata".to_owned(), data: json!({ "status": "run_done", "run_id": run }) });
            }
            self.runs.remove(&run);
        }
        told
    }
}

pub(crate) async fn follow(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<ThreadStreamQuery>,
    since: Since,
) -> ApiResult<Streamed> {
    let wanted = Wanted::of(&query);
    let row = caller.thread(&thread, Action::Read).await?;
    let after = match since {
        Since::Place(place) => place,
        Since::Now => Place(row.last_event, usize::MAX),
        Since::Nowhere => Place(u64::MAX, 0),
    };
    let stream = ThreadStream {
        app: caller.app.clone(),
        thread: row.id.clone(),
        follow: Follow::of_thread(caller.app.clone(), &row, 0),
        wanted,
        runs: HashMap::new(),
        after,
    };
    Ok(Streamed(feed::feed(&caller.app, stream)))
}
