//! Goes on with the threads for which a time or a signal has come: adds a run to each.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::shared::Shared;
use hier_checkpoint::checkpoint::guard::reported;
use hier_checkpoint::panics;
use hier_core::checkpoint::{DueQuery, DueThread};
use hier_core::graph::DynGraph;
use hier_core::runs::{MultitaskStrategy, NewRun, Request, Run, RunQuery, RunStatus, RunsError, ThreadStatus};

/// How many threads are read at once.
const LIMIT: usize = 256;
/// How many such pages are looked at in one go.
const PAGES: usize = 4;
/// When a thread is looked at again whose run did not get on. It is twice as long each time.
const AGAIN: Duration = Duration::from_mins(1);
/// The longest that it is put off.
const LONGEST: Duration = Duration::from_hours(24);
/// The metadata of such a run.
const WOKEN: &str = "woken";

/// Looks for threads that are due until the token is cancelled. Any number of workers may: the id of a run follows from its thread and
/// the time, so that one of them adds it.
pub(super) async fn run_until(shared: Arc<Shared>, stop: CancellationToken) {
    let mut round = Round::default();
    loop {
        if let Err(error) = look(&shared, &mut round).await {
            tracing::warn!(%error, "cannot look for threads that are due; trying again later");
        }
        if stop.run_until_cancelled(tokio::time::sleep(shared.poll)).await.is_none() {
            return;
        }
    }
}

/// A way through all threads that are due, from the longest due on, a part at a time: those that cannot go on now stay in the list, and
/// must not keep the others from being looked at. After the last it begins again.
#[derive(Debug, Default)]
struct Round {
    /// The last that was looked at.
    last: Option<DueThread>,
}

/// Looks at the next part of them.
async fn look(shared: &Shared, round: &mut Round) -> Result<(), RunsError> {
    let now = SystemTime::now();
    let graphs: Vec<String> = shared.graphs.values().flat_map(|graph| graph.names()).collect();
    for _ in 0..PAGES {
        let query = DueQuery::new(now, graphs.clone(), LIMIT).after(round.last.take());
        let page = reported("due", async {
            match shared.store.inbox() {
                Ok(inbox) => inbox.due(query).await,
                // Nothing is ever due.
                Err(_) => Ok(Vec::new()),
            }
        })
        .await?;
        for due in &page {
            match panics::caught(wake(shared, due, now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(thread = %due.thread, %error, "a thread that is due cannot go on; trying again later");
                }
                Err(payload) => {
                    let message = panics::text(&*payload);
                    tracing::error!(
                        thread = %due.thread,
                        message,
                        "the graph of a thread that is due panicked while it was looked at; trying again later: mend the panic"
                    );
                }
            }
        }
        if page.len() < LIMIT {
            break;
        }
        round.last = page.into_iter().next_back();
    }
    Ok(())
}

/// Adds a run to a thread, unless it has one.
async fn wake(shared: &Shared, due: &DueThread, now: SystemTime) -> Result<(), RunsError> {
    // A thread that a program runs by itself is for the program to go on with.
    let Some(row) = shared.store.thread(&due.thread).await? else { return Ok(()) };
    let name = row.metadata.get("graph_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(graph) = shared.graphs.get(&name).filter(|_| row.status != ThreadStatus::Busy) else { return Ok(()) };
    let mut before = RunQuery::thread(&*due.thread);
    before.limit = 16;
    let before = shared.store.runs(before).await?;
    let in_vain = before.iter().take_while(|run| is_woken(run) && run.status != RunStatus::Success).count();
    if let Some(last) = before.first().filter(|_| in_vain > 0) {
        let until = last.updated + put_off(in_vain);
        if until > now {
            return is_due(&**graph, shared, due, now, Some(until)).await.map(|_| ());
        }
    }
    if !is_due(&**graph, shared, due, now, None).await? {
        return Ok(());
    }
    match shared.store.create_run(next(due, name, before.into_iter().next(), row.config, in_vain)).await {
        Ok(run) => {
            tracing::debug!(thread = %due.thread, run = %run.id, "a thread that was due goes on");
            Ok(())
        }
        Err(RunsError::Busy { .. }) => Ok(()),
        // It was added already, and has not got on: others come first meanwhile.
        Err(RunsError::Exists { .. }) => is_due(&**graph, shared, due, now, Some(now + AGAIN)).await.map(|_| ()),
        Err(error) => Err(error),
    }
}

async fn is_due(
    graph: &dyn DynGraph,
    shared: &Shared,
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

/// For how long a thread is put off after so many runs in vain.
fn put_off(in_vain: usize) -> Duration {
    let times = u32::try_from(in_vain.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    AGAIN.saturating_mul(1 << times).min(LONGEST)
}

/// The run that goes on: as the last one of the thread was asked for, without its input.
fn next(
    due: &DueThread,
    graph: String,
    last: Option<Run>,
    config: serde_json::Map<String, Value>,
    in_vain: usize,
) -> NewRun {
    let (mut request, mut metadata, mut assistant) = (Request::default(), None, None);
    request.config = config;
    if let Some(last) = last {
        (request, metadata, assistant) = (last.request, Some(last.metadata), last.assistant);
        (request.input, request.command, request.checkpoint) = (Value::Null, None, None);
        request.checkpoint_ns.clear();
    }
    let mut new = NewRun::new(&*due.thread, graph, request);
    new.id = Some(run_id(due, in_vain));
    new.assistant = assistant;
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
