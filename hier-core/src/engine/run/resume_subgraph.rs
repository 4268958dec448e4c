//! Opens and closes the call of a subgraph in a durable run. The subgraph has checkpoints in a separate namespace.

use std::sync::Arc;

use crate::engine::durable::commands::OpenQuestionIds;
use crate::engine::durable::journal::{Journal, JournalStart};
use crate::engine::durable::load::{LoadRequest, LoadedThread, load};
use crate::engine::durable::names::{CALL, RETURNED};
use crate::engine::durable::resumed::{ResumeMode, ResumedStep};
use crate::engine::durable::stored_graph::{StoredGraph, read_subgraph};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Checkpoints, GraphContext, Program, Task};
use crate::engine::run::resume::unstored;
use crate::engine::run::runner::{GraphEnd, GraphRunner};
use crate::error::RunError;
use crate::policy::GraphEntry;
use crate::state::{Values, Writes};

/// Opens the subgraph that a task runs. Begins a call with the input, or continues the call where it stopped. `log` is
/// the log of the subgraph.
pub(super) async fn open_call<S: Values, C: GraphContext, T: Values, D: GraphContext>(
    runner: &mut GraphRunner<T, D>,
    task: &Task<S, C>,
    input: Writes<T>,
    log: Arc<TaskLog>,
) -> Result<(), RunError> {
    let graph = runner.task.graph.clone();
    let committer = log.committer.clone();
    let reader = ThreadReader { graph: &*graph, thread: &committer.lease.thread };
    let namespace = runner.task.run.shared.namespace.clone();
    let stored = Box::pin(read_subgraph(reader, &log, &namespace, task)).await;
    let StoredGraph { saved, newest, heads, .. } = stored.map_err(|error| reader.failed(error))?;
    log.set_heads(heads);
    let is_per_thread = task.subgraph_checkpoints() == Checkpoints::PerThread;
    let journal = |start| call_journal(runner, task, log, start);
    let Some(saved) = saved else {
        let journal = journal(JournalStart { newest, ..JournalStart::default() });
        runner.start_journal(journal);
        // The state already has the values of the input, which later calls load from the checkpoints.
        if is_per_thread {
            runner.store_whole_state();
        }
        return runner.begin_call(Writes::new(), -1).await;
    };
    let continues_call = !is_per_thread
        || saved.checkpoint.metadata.get(CALL).is_some_and(|call| *call == task.run.task_id().to_string());
    // Until the first superstep of a call is stored, a resumed call still has the expiring values with which it was
    // entered.
    let is_entering = !is_per_thread && saved.checkpoint.step <= 0;
    let mut initial = if is_per_thread { unstored(&graph, &runner.task.state) } else { (*runner.task.state).clone() };
    if !is_entering {
        clear_expiring(&graph, &mut initial);
    }
    let request = LoadRequest { saved, conversations: Vec::new(), newest, initial, is_child: true };
    let LoadedThread { checkpoint, state, mut position, pending, mut start } = load(reader, request)?;
    if is_entering {
        position.restart_expiry(&graph.channels);
    }
    if !continues_call {
        start.versions.retain(|(name, ..)| &**name != RETURNED);
        position.forget_returned();
    }
    let journal = journal(start);
    runner.restore(journal, state, position);
    runner.keep_heads_of_open_calls(&pending, checkpoint.step).await?;
    let step = checkpoint.step.saturating_add(1);
    if !continues_call {
        runner.discard()?;
        return runner.begin_call(input, step).await;
    }
    runner.enter_at(step, GraphEntry::Resume);
    let unaddressed = runner.task.run.shared.unaddressed.clone();
    let resumed = ResumedStep { pending, mode: ResumeMode::Continue, unaddressed, open: open_next_to_answered(task) };
    runner.resume_step(Some(resumed), checkpoint.source, &checkpoint.agenda.stops_after);
    Ok(())
}

fn call_journal<S: Values, C: GraphContext, T: Values, D: GraphContext>(
    runner: &GraphRunner<T, D>,
    task: &Task<S, C>,
    log: Arc<TaskLog>,
    start: JournalStart,
) -> Journal {
    let shared = &runner.task.run.shared;
    let is_per_thread = task.subgraph_checkpoints() == Checkpoints::PerThread;
    let mut metadata = shared.config.metadata.clone();
    if is_per_thread {
        metadata.insert(CALL.to_owned(), task.run.task_id().to_string().into());
    }
    let parents = shared.parents.clone().unwrap_or_default();
    let outer = task.run.shared.log.clone().filter(|_| is_per_thread);
    let journal = Journal::new(&runner.task.graph, log, metadata, parents, start);
    journal.step_policy(shared.config.step_policy.as_deref()).report_heads_to(outer)
}

fn clear_expiring<S: Values, C>(graph: &Program<S, C>, state: &mut S) {
    let expiring = (0..).zip(&*graph.channels).filter(|(_, spec)| spec.kind.expires());
    expiring.for_each(|(channel, _)| state.clear(channel));
}

/// Returns the open questions of a subgraph, if other questions of the subgraph have been answered.
fn open_next_to_answered<S: Values, C>(task: &Task<S, C>) -> Option<OpenQuestionIds> {
    let questions = &task.run.resume.as_ref()?.questions;
    let open = questions.iter().filter(|question| !question.answered);
    questions.iter().any(|question| question.answered).then(|| open.map(|question| question.id.clone()).collect())
}

/// Closes the call of a subgraph. With [`Durability::Exit`](crate::Durability::Exit), a finished call stores nothing,
/// unless it took messages. The effect of a message must not get lost if the superstep of the outer graph cannot be
/// applied.
pub(super) async fn close_call<S: Values, C: GraphContext, T: Values, D: GraphContext>(
    runner: &mut GraphRunner<T, D>,
    task: &Task<S, C>,
    end: &Result<GraphEnd, RunError>,
) -> Result<(), RunError> {
    let is_finished = matches!(end, Ok(GraphEnd::Finished | GraphEnd::Parent(..)));
    let took_messages = runner.journal.as_ref().is_some_and(|journal| journal.log.is_deferred());
    if task.subgraph_checkpoints() == Checkpoints::PerThread || !is_finished || took_messages {
        return runner.store_call(task.run.shared.log.as_deref()).await;
    }
    Ok(())
}

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    async fn begin_call(&mut self, input: Writes<S>, step: i64) -> Result<(), RunError> {
        self.begin_durably(input, step).await?;
        self.offer_answer();
        Ok(())
    }

    /// Offers the answer for the first task that asks to the tasks of the next superstep.
    pub(super) fn offer_answer(&mut self) {
        let Some(answer) = self.task.run.shared.unaddressed.as_ref().filter(|answer| answer.waits()) else { return };
        self.resumed = Some(Box::new(ResumedStep::offered(answer.clone())));
    }
}
