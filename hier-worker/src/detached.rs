//! Adds runs that continue the detached subagents of a run that has ended. Such a run uses the subagent's own thread,
//! so the thread of the supervisor stays free.

use std::sync::Arc;

use super::context::WorkerContext;
use hier_checkpoint::panics;
use hier_core::checkpoint::{Checkpointer, SaverError, background};
use hier_core::graph::DynGraph;
use hier_core::runs::{
    Durability, MultitaskStrategy, NewRun, NewThread, Request, Run, RunLog, RunsError, ThreadStatus,
};

/// Adds a run for each detached subagent whose report the supervisor has not collected.
///
/// The worker calls this before it stores the end of the run. If the worker dies in between, another worker ends the
/// run, and finds the added runs.
pub(super) async fn add_runs(shared: &WorkerContext, run: &Run, log: &Arc<RunLog>) -> Result<(), RunsError> {
    // A temporary thread is deleted with its subagents.
    if run.request.detached || run.temporary {
        return Ok(());
    }
    let Some(graph) = shared.graphs.get(&run.graph) else { return Ok(()) };
    let saver: Arc<dyn Checkpointer> = log.clone();
    let threads = match panics::caught(graph.detached(saver, &run.thread)).await {
        Ok(Ok(threads)) => threads,
        Ok(Err(error)) => {
            tracing::warn!(
                thread = run.thread,
                graph = run.graph,
                %error,
                "failed to read a thread, so its detached subagents wait for its next run: fix the error"
            );
            return Ok(());
        }
        Err(payload) => {
            let message = panics::text(&*payload);
            tracing::error!(
                thread = run.thread,
                graph = run.graph,
                message,
                "reading a thread panicked, so its detached subagents wait for its next run: fix the panic"
            );
            return Ok(());
        }
    };
    if threads.is_empty() {
        return Ok(());
    }
    let Some(row) = shared.store.thread(&run.thread).await? else { return Ok(()) };
    for thread in &threads {
        let mut new = NewThread::new(&**thread);
        new.metadata.clone_from(&row.metadata);
        match shared.store.create_run(run_on(thread, new, run)).await {
            // A run now continues the subagent.
            Ok(_) | Err(RunsError::Busy { .. }) => {}
            Err(error @ RunsError::Saver(SaverError::Database { .. } | SaverError::Superseded { .. })) => {
                return Err(error);
            }
            // The end of this run must be stored even if the run of a subagent cannot be added.
            Err(error) => tracing::warn!(
                thread,
                graph = run.graph,
                %error,
                "failed to add a run for a detached subagent, which waits for the next run of its supervisor: fix the error"
            ),
        }
    }
    // If the thread was deleted in the meantime, the threads of its subagents are deleted, too.
    if shared.store.thread(&run.thread).await?.is_none() {
        for thread in &threads {
            shared.store.remove_thread(thread).await?;
        }
    }
    Ok(())
}

/// Waits until the supervisor's thread contains the record of the subagent, or until the supervisor's run has ended.
/// The record may be stored only with that end. Returns false if this takes longer than a lease: the run must then free
/// its slot, because the supervisor's run may wait for a slot.
pub(super) async fn is_recorded(shared: &WorkerContext, graph: &dyn DynGraph, run: &Run) -> bool {
    tokio::time::timeout(shared.lease_duration, until_recorded(shared, graph, run)).await.is_ok()
}

async fn until_recorded(shared: &WorkerContext, graph: &dyn DynGraph, run: &Run) {
    let Some(supervisor) = background::outer_of(&run.thread) else { return };
    loop {
        // The row is read before the record, because the record is stored no later than the end of the run.
        let row = shared.store.thread(supervisor).await;
        let is_busy = row.is_ok_and(|row| row.is_some_and(|row| row.status == ThreadStatus::Busy));
        let found = graph.detached(shared.store.clone().as_checkpointer(), supervisor).await;
        if !is_busy || found.is_ok_and(|threads| threads.contains(&run.thread)) {
            return;
        }
        tokio::time::sleep(shared.poll_interval).await;
    }
}

/// Creates the run of a subagent, with the context and the options of the supervisor's run.
fn run_on(thread: &str, new_thread: NewThread, run: &Run) -> NewRun {
    let mut request = Request::default();
    request.config.clone_from(&run.request.config);
    request.context.clone_from(&run.request.context);
    // The engine continues a detached subagent like this, whatever the durability of its supervisor.
    request.durability = Durability::Sync;
    request.secrets.clone_from(&run.request.secrets);
    request.detached = true;
    let mut new = NewRun::new(thread, &run.graph, request);
    new.new_thread = Some(new_thread);
    new.assistant.clone_from(&run.assistant);
    new.metadata.clone_from(&run.metadata);
    new.multitask_strategy = MultitaskStrategy::Reject;
    new
}
