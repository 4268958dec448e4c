//! Adds runs that continue the detached subagents of a run that has ended. Each is a run on the subagent's own thread, so
//! the thread of the supervisor is free.

use std::sync::Arc;

use super::context::WorkerContext;
use hier_checkpoint::panics;
use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{MultitaskStrategy, NewRun, NewThread, Request, Run, RunLog, RunsError};

/// Adds the runs before the end of this run is stored: if the worker dies in between, another one ends this run and finds
/// them added.
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
            tracing::warn!(thread = run.thread, %error, "failed to find the detached subagents of a run");
            return Ok(());
        }
        Err(payload) => {
            let message = panics::text(&*payload);
            tracing::error!(thread = run.thread, message, "finding the detached subagents of a run panicked");
            return Ok(());
        }
    };
    if threads.is_empty() {
        return Ok(());
    }
    let metadata = shared.store.thread(&run.thread).await?.map(|row| row.metadata).unwrap_or_default();
    for thread in threads {
        let mut new = NewThread::new(&*thread);
        new.metadata.clone_from(&metadata);
        match shared.store.create_run(run_on(thread, new, run)).await {
            // A worker continues the subagent already.
            Ok(_) | Err(RunsError::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates the run of a subagent, with the context and the options of the supervisor's run.
fn run_on(thread: String, new_thread: NewThread, run: &Run) -> NewRun {
    let mut request = Request::default();
    request.config.clone_from(&run.request.config);
    request.context.clone_from(&run.request.context);
    request.durability = run.request.durability;
    request.secrets.clone_from(&run.request.secrets);
    request.detached = true;
    let mut new = NewRun::new(thread, &run.graph, request);
    new.new_thread = Some(new_thread);
    new.assistant.clone_from(&run.assistant);
    new.metadata.clone_from(&run.metadata);
    new.multitask_strategy = MultitaskStrategy::Reject;
    new
}
