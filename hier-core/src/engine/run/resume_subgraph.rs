//! A graph that a node runs, in a durable run: it has checkpoints of its own, in a namespace of its own.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Saved, SaverError};
use crate::engine::durable::answer::Open;
use crate::engine::durable::input;
use crate::engine::durable::journal::{Journal, RETURNED};
use crate::engine::durable::kept;
use crate::engine::durable::kept::{CALL, Place};
use crate::engine::durable::load::{Known, Loaded, Reader, load};
use crate::engine::durable::resumed::{Mode, Resumed};
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{Checkpoints, Task};
use crate::engine::run::runner::{End, Runner};
use crate::engine::step::Returns;
use crate::error::RunError;
use crate::state::{Values, Writes};

fn keeps<S: Values, C>(task: &Task<S, C>) -> bool {
    task.graph.nodes[task.run.key.node].checkpoints == Checkpoints::PerThread
}

/// Begins a subgraph of a durable run with an input, which enters it, or takes it up where it stopped.
pub(crate) async fn begin_child<S, C, T, D>(
    runner: &mut Runner<T, D>,
    task: &Task<S, C>,
    given: Writes<T>,
    log: Arc<TaskLog>,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    let keeps = keeps(task);
    let failed = |error| RunError::Saver { graph: runner.task.graph.plan.graph().to_owned(), error };
    let (saved, newest) = Box::pin(stored(&log, task, keeps)).await.map_err(failed)?;
    let mut metadata = runner.task.run.shared.config.metadata.clone();
    let call = task.run.task_id().to_string();
    if keeps {
        metadata.insert(CALL.to_owned(), call.clone().into());
    }
    let (graph, metadata) = (runner.task.graph.clone(), Arc::new(metadata));
    let parents = runner.task.run.shared.parents.clone().unwrap_or_default();
    let (keeper, level) = (task.run.shared.log.clone().filter(|_| keeps), last_level(&log.namespace));
    let policy = runner.step_policy().cloned();
    let journal = |known| {
        let journal = Journal::new(&graph, log.clone(), metadata, parents, known).step_policy(policy.as_deref());
        journal.kept_by(keeper, level)
    };
    runner.position.ledger.keep_notes(&graph.channels, &[]);
    let (checkpointer, thread) = (&log.committer.saver, log.committer.lease.thread.clone());
    // Of a call that is the first of its namespace nothing is stored inside it either.
    if saved.is_some() || keeps {
        let stands = saved.as_ref().map(|saved| &saved.checkpoint);
        let bound = stands.map(|checkpoint| checkpoint.id).filter(|id| Some(*id) != newest);
        let namespace = &*runner.task.run.shared.namespace;
        let opened =
            Place { graph: &*graph, saver: checkpointer, thread: &thread, namespace }.opened(stands, bound).await;
        log.keep_all(opened.map_err(failed)?);
    }
    let Some(mut saved) = saved else {
        runner.journal = Some(Box::new(journal(Known { newest, ..Known::default() })));
        runner.begin_durably(given, -1).await?;
        runner.offer_answer();
        return Ok(());
    };
    let completed = input::complete(checkpointer, &thread, &log.namespace, &mut saved).await;
    completed.map_err(failed)?;
    let goes_on = !keeps || saved.checkpoint.metadata.get(CALL).is_some_and(|stored| *stored == call);
    // Of a call that goes on the channels which expire are as they were stored, once its first step has been.
    let is_entering = !keeps && saved.checkpoint.step <= 0;
    let mut entry = if keeps { (graph.initial)() } else { (*runner.task.state).clone() };
    if !is_entering {
        let expiring = (0..).zip(&*graph.channels).filter(|(_, spec)| spec.kind.expires());
        expiring.for_each(|(channel, _)| entry.clear(channel));
    }
    let loaded = load(&Reader { graph: &*graph, thread: &thread }, entry, newest, saved, true)?;
    let Loaded { checkpoint, state, mut position, pending, mut known } = loaded;
    if is_entering {
        position.ledger.enter(&graph.channels);
    }
    if !goes_on {
        // What earlier calls have handed back is none of this one's.
        known.versions.retain(|(name, ..)| &**name != RETURNED);
        position.ledger.returned.iter_mut().for_each(Returns::clear);
    }
    runner.take_up(journal(known), state, position);
    runner.keep_begun(&pending, checkpoint.step).await?;
    let step = checkpoint.step.saturating_add(1);
    if !goes_on {
        runner.discard()?;
        runner.begin_durably(given, step).await?;
        runner.offer_answer();
        return Ok(());
    }
    runner.resume_at(step);
    let anyone = runner.task.run.shared.anyone.clone();
    let resumed = Resumed { pending, mode: Mode::GoOn, anyone, open: open_inside(task) };
    runner.resume(Some(resumed), checkpoint.source);
    runner.enter_stored().await
}

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// An answer for whoever asks first may be taken by a task of the next step.
    pub(in crate::engine) fn offer_answer(&mut self) {
        let Some(anyone) = self.task.run.shared.anyone.as_ref().filter(|anyone| anyone.waits()) else { return };
        self.resumed = Some(Box::new(Resumed::offered(anyone.clone())));
    }
}

/// The questions of a subgraph that are open beside others that have their answers.
fn open_inside<S: Values, C>(task: &Task<S, C>) -> Option<Open> {
    let questions = &task.run.inbox.as_ref()?.questions;
    let open = questions.iter().filter(|question| !question.answered);
    questions.iter().any(|question| question.answered).then(|| open.map(|question| question.id.clone()).collect())
}

/// The part of a namespace that stands for the innermost graph.
fn last_level(namespace: &str) -> &str {
    namespace.rsplit_once('|').map_or(namespace, |(_, level)| level)
}

/// What a call of a subgraph goes on from, and the newest checkpoint of its namespace.
async fn stored<S, C>(
    log: &TaskLog,
    task: &Task<S, C>,
    keeps: bool,
) -> Result<(Option<Saved>, Option<Uuid>), SaverError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    // A first attempt that was not resumed cannot have stored anything.
    if !keeps && !task.run.is_resumed() && task.run.attempt() == 1 {
        return Ok((None, None));
    }
    let (saver, thread) = (&log.committer.saver, &log.committer.lease.thread);
    // What was stored in the background a moment ago is to be found.
    log.committer.flush().await?;
    match &task.run.shared.log {
        Some(outer) if keeps => {
            kept::of_subgraph(saver, outer, thread, (&log.namespace, last_level(&log.namespace))).await
        }
        _ => {
            let found = saver.get(thread, &log.namespace, None).await?;
            let newest = found.as_ref().map(|found| found.checkpoint.id);
            Ok((found, newest))
        }
    }
}

/// Ends a subgraph. With durability `exit` only what is still needed is stored: of a call that is complete nothing, unless it took
/// letters, whose effect must not be lost if the step cannot be applied.
pub(crate) async fn close_child<S, C, T, D>(
    runner: &mut Runner<T, D>,
    task: &Task<S, C>,
    end: &Result<End, RunError>,
) -> Result<(), RunError>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    let finished = matches!(end, Ok(End::Finished | End::Parent(..)));
    let took = runner.journal.as_ref().is_some_and(|journal| journal.log.is_deferred());
    if keeps(task) || !finished || took { runner.store_call(task.run.shared.log.as_deref()).await } else { Ok(()) }
}
