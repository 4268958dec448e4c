//! The storage of the server, and the route by which the suite of LangGraph.js empties it.

use std::error::Error;
use std::sync::Arc;

use hier_core::runs::{AssistantQuery, Assistants, Cancel, MemoryRuns, RunQuery, RunStore, RunsError, ThreadQuery};
use hier_core::store::{MemoryStore, Search, Store, StoreExt as _};
use hier_postgres::Postgres;
use hier_postgres::PostgresStore;
use hier_server::axum::extract::Json;
use hier_server::axum::http::StatusCode;
use hier_server::axum::{Router, routing};
use hier_sqlite::Sqlite;
use hier_sqlite::SqliteStore;
use serde::Deserialize;

type Storage = (Arc<dyn RunStore>, Arc<dyn Store>);

/// Opens the database; without one, everything is in memory.
pub(crate) async fn open(url: Option<&str>) -> Result<Storage, Box<dyn Error>> {
    let Some(url) = url else {
        return Ok((Arc::new(MemoryRuns::new()), Arc::new(MemoryStore::default())));
    };
    if let Some(file) = url.strip_prefix("sqlite:") {
        return Ok((Arc::new(Sqlite::open(file).await?), Arc::new(SqliteStore::open(file).await?)));
    }
    let (runs, store) = (Postgres::options().connect(url).await?, PostgresStore::connect(url).await?);
    runs.migrate().await?;
    store.migrate().await?;
    Ok((Arc::new(runs), Arc::new(store)))
}

/// The parts to empty.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Truncate {
    threads: bool,
    assistants: bool,
    store: bool,
}

/// `POST /internal/truncate`, which that suite calls between its tests.
pub(crate) fn truncation(runs: Arc<dyn RunStore>, store: Arc<dyn Store>) -> Router {
    let empty = async move |Json(what): Json<Truncate>| {
        let emptied = async {
            if what.threads {
                threads(&*runs).await?;
            }
            if what.assistants {
                assistants(&*runs).await?;
            }
            if what.store {
                items(&*store).await?;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        };
        emptied
            .await
            .map_or_else(|error| (StatusCode::CONFLICT, error.to_string()), |()| (StatusCode::OK, String::new()))
    };
    Router::new().route("/internal/truncate", routing::post(empty))
}

/// Deletes all threads, with their runs.
async fn threads(runs: &dyn RunStore) -> Result<(), RunsError> {
    let mut all = ThreadQuery::default();
    (all.limit, all.with_values) = (usize::MAX, false);
    for thread in runs.search_threads(all).await? {
        let live = runs.runs(RunQuery::thread(thread.id.clone()).live()).await?;
        let ids: Vec<_> = live.iter().map(|run| run.id).collect();
        runs.cancel_runs(&thread.id, &ids, Cancel::Interrupt).await?;
        // A run that is being cancelled holds its thread until its tasks are gone.
        while let Err(RunsError::Live { .. } | RunsError::Busy { .. }) = runs.remove_thread(&thread.id).await {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Deletes all assistants but those that each graph has by itself.
async fn assistants(runs: &dyn RunStore) -> Result<(), RunsError> {
    let assistants = Assistants::of(runs);
    for assistant in assistants.search(&AssistantQuery::default()).await? {
        if assistant.metadata.get("created_by").is_none_or(|by| by != "system") {
            assistants.delete(&assistant.id).await?;
        }
    }
    Ok(())
}

/// Deletes everything in the store.
async fn items(store: &dyn Store) -> Result<(), hier_core::store::StoreError> {
    let nowhere: [String; 0] = [];
    loop {
        let found = store.search(Search::below(nowhere.clone())).await?;
        if found.is_empty() {
            return Ok(());
        }
        for item in found {
            store.delete(item.namespace, item.key).await?;
        }
    }
}
