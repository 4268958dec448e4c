//! Resumes due threads: adds a run to each thread whose timer is due or whose signal has arrived.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::context::WorkerContext;
use hier_checkpoint::checkpoint::guard::reported;
use hier_checkpoint::panics;
use hier_core::checkpoint::{DueQuery, DueThread, background};
use hier_core::graph::DynGraph;
use hier_core::runs::{
    MultitaskStrategy, NewRun, Run, RunQuery, RunStatus, RunsError, ThreadIs, ThreadRow, ThreadStatus,
};

const PAGE: usize = 256;
const PAGES: usize = 4;
/// Delay after the first run without progress. Each further run without progress doubles the delay.
const FIRST_DELAY: Duration = Duration::from_mins(1);
const MAX_DELAY: Duration = Duration::from_hours(24);
/// The metadata field that marks a run that resumes a due thread.
const WOKEN: &str = "woken";

/// Resumes due threads until the token is cancelled. Several workers may call this at once. They derive the same id for
/// the run of a due thread, so only one of them adds it.
pub(super) async fn run_until(shared: Arc<WorkerContext>, stop: CancellationToken) {
    let mut cursor = DueCursor::default();
    loop {
        if let Err(error) = resume_due(&shared, &mut cursor).await {
            tracing::warn!(%error, "failed to look for due threads; trying again later");
        }
        if stop.run_until_cancelled(tokio::time::sleep(shared.poll_interval)).await.is_none() {
            return;
        }
    }
}

/// A position in the list of due threads, longest due first. Threads that cannot continue stay in the list, so each
/// pass starts where the previous pass ended. After the end of the list, a pass starts at the first thread.
#[derive(Debug, Default)]
struct DueCursor {
    last: Option<DueThread>,
}

/// Resumes the due threads after the cursor.
async fn resume_due(shared: &WorkerContext, cursor: &mut DueCursor) -> Result<(), RunsError> {
    let now = SystemTime::now();
    let graphs: Vec<String> = shared.graphs.values().flat_map(|graph| graph.names()).collect();
    for _ in 0..PAGES {
        let query = DueQuery::new(now, graphs.clone(), PAGE).after(cursor.last.take());
        let page = reported("due", async {
            match shared.store.inbox() {
                Ok(inbox) => inbox.due(query).await,
                // Without an inbox, no thread is ever due.
                Err(_) => Ok(Vec::new()),
            }
        })
        .await?;
        for due in &page {
            match panics::caught(resume(shared, due, now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(thread = %due.thread, %error, "failed to resume a due thread; trying again later");
                }
                Err(payload) => {
                    let message = panics::text(&*payload);
                    tracing::error!(
                        thread = %due.thread,
                        message,
                        "checking a due thread panicked; trying again later: fix the panic"
                    );
                }
            }
        }
        if page.len() < PAGE {
            break;
        }
        cursor.last = page.into_iter().next_back();
    }
    Ok(())
}

/// Adds a run to a due thread, unless the thread has a run that has not ended.
async fn resume(shared: &WorkerContext, due: &DueThread, now: SystemTime) -> Result<(), RunsError> {
    // Threads without a row belong to a program that runs them without this store.
    let Some(row) = shared.store.thread(&due.thread).await? else { return Ok(()) };
    let name = row.metadata.get("graph_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(graph) = shared.graphs.get(&name).filter(|_| row.status != ThreadStatus::Busy) else { return Ok(()) };
    let mut newest = RunQuery::thread(&*due.thread);
    newest.limit = 16;
    let before = shared.store.runs(newest.clone()).await?;
    let in_vain = before.iter().take_while(|run| is_woken(run) && run.status != RunStatus::Success).count();
    if let Some(last) = before.first().filter(|_| in_vain > 0) {
        let until = last.updated + delay(in_vain);
        if until > now {
            return is_due(&**graph, shared, due, now, Some(until)).await.map(|_| ());
        }
    }
    if !is_due(&**graph, shared, due, now, None).await? {
        return Ok(());
    }
    if !is_continued(&**graph, shared, due).await? {
        // Postpones the thread, so that it is not the first thread in each search.
        return is_due(&**graph, shared, due, now, Some(now + MAX_DELAY)).await.map(|_| ());
    }
    let last = last_run(shared, before, newest, &name).await?;
    let new = resuming_run(due, name, last, row, in_vain);
    match shared.store.create_run(new).await {
        Ok(run) => {
            tracing::debug!(thread = %due.thread, run = %run.id, "resumed a due thread");
            Ok(())
        }
        Err(RunsError::Busy { .. }) => Ok(()),
        // The run exists already and has made no progress. The thread is postponed, so that other threads come first.
        Err(RunsError::Exists { .. }) => is_due(&**graph, shared, due, now, Some(now + FIRST_DELAY)).await.map(|_| ()),
        Err(error) => Err(error),
    }
}

/// Returns false for the thread of a subagent that its supervisor has cancelled.
async fn is_continued(graph: &dyn DynGraph, shared: &WorkerContext, due: &DueThread) -> Result<bool, RunsError> {
    let Some(supervisor) = background::outer_of(&due.thread) else { return Ok(true) };
    let found = graph.detached(shared.store.clone().as_checkpointer(), supervisor).await;
    let threads = found.map_err(|error| RunsError::Invalid(error.to_string()))?;
    Ok(threads.iter().any(|thread| **thread == *due.thread))
}

async fn is_due(
    graph: &dyn DynGraph,
    shared: &WorkerContext,
    due: &DueThread,
    now: SystemTime,
    again: Option<SystemTime>,
) -> Result<bool, RunsError> {
    let saver = shared.store.clone().as_checkpointer();
    let found = graph.is_due(saver, &due.thread, now, again).await;
    found.map_err(|error| RunsError::Invalid(error.to_string()))
}

fn is_woken(run: &Run) -> bool {
    run.metadata.get(WOKEN).is_some_and(|woken| *woken == Value::Bool(true))
}

/// Returns the delay after this number of runs without progress.
fn delay(in_vain: usize) -> Duration {
    let times = u32::try_from(in_vain.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    FIRST_DELAY.saturating_mul(1 << times).min(MAX_DELAY)
}

/// Returns the last run of this graph, from these runs or from the pages after them. Runs of other graphs have failed,
/// and have options for their own graph.
async fn last_run(
    shared: &WorkerContext,
    mut page: Vec<Run>,
    mut query: RunQuery,
    graph: &str,
) -> Result<Option<Run>, RunsError> {
    loop {
        let is_last = page.len() < query.limit;
        let found = page.into_iter().find(|run| run.graph == graph);
        if found.is_some() || is_last {
            return Ok(found);
        }
        query.offset += query.limit;
        page = shared.store.runs(query.clone()).await?;
    }
}

/// Creates a run with the options of the graph's last run on the thread, but without that run's input. If the last run
/// was deleted, or if the thread is a copy, the row of the thread has the options.
fn resuming_run(due: &DueThread, graph: String, last: Option<Run>, row: ThreadRow, in_vain: usize) -> NewRun {
    let (mut metadata, mut temporary) = (None, false);
    let mut assistant = row.metadata.get("assistant_id").and_then(Value::as_str).map(str::to_owned);
    let on = ThreadIs::this(&row);
    let mut request = row.request.unwrap_or_default();
    request.config = row.config;
    if let Some(last) = last {
        (request, metadata, assistant) = (last.request, Some(last.metadata), last.assistant);
        temporary = last.temporary;
        request.continue_thread();
    }
    request.detached = background::outer_of(&due.thread).is_some();
    let mut new = NewRun::new(&*due.thread, graph, request);
    new.id = Some(run_id(due, in_vain));
    // Since the row was read, another user may have created a thread with the same id.
    new.on = Some(on);
    (new.assistant, new.temporary) = (assistant, temporary);
    new.metadata = metadata.unwrap_or_default();
    new.metadata.insert(WOKEN.to_owned(), true.into());
    new.multitask_strategy = MultitaskStrategy::Reject;
    new
}

fn run_id(due: &DueThread, in_vain: usize) -> Uuid {
    let at = due.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format!("due {} {} {} {in_vain}", due.thread, at.as_secs(), at.subsec_nanos());
    uuid::Builder::from_random_bytes(xxhash_rust::xxh3::xxh3_128(text.as_bytes()).to_be_bytes()).into_uuid()
}
