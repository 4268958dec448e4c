//! Changes of runs as they are asked for, and claims.

use std::sync::Arc;

use futures_util::future::join_all;
use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::runs::{
    Changed, Claimed, RunClaim, RunQuery, RunStatus, RunsError, ThreadAction, ThreadChange, ThreadStatus,
};

use super::super::Postgres;
use super::super::session::retrying;
use super::super::text::claimed_by;
use super::change::{Answer, Beside, Seen, claimed};
use super::look;
use super::see::Waiting;
use super::store::{Asked, ChangeOutcome};
use super::tables::Tables;
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::run_rows::{no_thread, superseded};

impl Postgres {
    /// Stores a change with these records. Returns none, and nothing was stored, if there is nothing to start or somebody else has claimed
    /// the thread. A change that only starts a run waits for nobody who is at work on the thread.
    pub(super) async fn apply(
        &self,
        change: &ThreadChange,
        records: Option<&Arc<Batch>>,
        known: Option<Seen>,
    ) -> Result<Option<Changed>, RunsError> {
        let waits = !matches!(change.action, ThreadAction::Start(_));
        let holder = change.claim().map(|claim| claimed_by(&claim.holder));
        let beside = Beside::of(change, holder.as_deref(), records);
        match Box::pin(self.store_change(Asked { change, beside, known, waits })).await? {
            ChangeOutcome::Stored(changed) => Ok(Some(*changed)),
            ChangeOutcome::Before(seen) => self.stored_before(change, holder.as_deref(), *seen).await.map(Some),
            ChangeOutcome::Nothing | ChangeOutcome::Refused(Answer::Taken) => Ok(None),
            ChangeOutcome::Refused(_) if !waits => Ok(None),
            ChangeOutcome::Refused(answer) => Err(refused(answer, change)),
        }
    }

    /// The result of a change whose answer was lost, from the thread as it is now.
    async fn stored_before(
        &self,
        change: &ThreadChange,
        holder: Option<&str>,
        seen: Seen,
    ) -> Result<Changed, RunsError> {
        let thread = &*change.thread;
        // It may have been claimed.
        let token = match holder {
            Some(holder) => look!(self, tables => tables.token_of(thread, holder).await)?,
            None => None,
        };
        let last_event = seen.thread.as_ref().map_or(0, |(row, _)| row.last_event);
        let is_busy = seen.thread.as_ref().is_some_and(|(row, _)| row.status == ThreadStatus::Busy);
        let (runs, started) = match &change.action {
            ThreadAction::Add(..) => {
                let there = seen.there.ok_or_else(|| no_thread(thread))?;
                (vec![there.clone()], Some(there))
            }
            ThreadAction::Start(_) => {
                let live = seen.thread.map(|(_, live)| live).unwrap_or_default();
                (Vec::new(), live.into_iter().find(|run| run.status == RunStatus::Running))
            }
            ThreadAction::Cancel(_, cancelled, _) => {
                seen.thread.ok_or_else(|| no_thread(thread))?;
                // As they are now: what they were is not known any more.
                let mut query = RunQuery::thread(thread);
                query.limit = usize::MAX;
                let runs = look!(self, tables => tables.runs(&query).await)?;
                (runs.into_iter().filter(|run| cancelled.contains(&run.id)).collect(), None)
            }
            ThreadAction::Patch(_) | ThreadAction::Commit(..) | ThreadAction::Requeue(..) => (Vec::new(), None),
        };
        Ok(Changed { last_event, is_busy, runs, claimed: claimed(change, started, token) })
    }

    /// Claims a run of each of these threads: of as many as are wanted, and if none of those can be claimed, of those behind them. And whether a
    /// thread was passed over, as it cannot be read. What was claimed is handed over also if another claim fails.
    pub(super) async fn claim_of_those(
        &self,
        mut waiting: Waiting,
        asked: &RunClaim,
        most: usize,
    ) -> Result<(Vec<Claimed>, bool), RunsError> {
        let (mut made, mut passes) = (Vec::new(), false);
        while made.is_empty() && !waiting.is_empty() {
            let next: Vec<_> = waiting.drain(..waiting.len().min(most)).collect();
            let claims = next.iter().map(|(thread, seen)| async {
                let change = ThreadChange::start(&**thread, asked.clone());
                match seen.clone() {
                    Ok(seen) => Ok(self.apply(&change, None, seen).await?.and_then(|changed| changed.claimed)),
                    Err(error) => Err(error.into()),
                }
            });
            // At once, so that they are stored together. None of them waits for somebody: the others are held from now on.
            let claims = join_all(claims).await;
            let mut failed = None;
            for ((thread, _), claimed) in next.iter().zip(claims) {
                let refused = match claimed {
                    Ok(claimed) => {
                        made.extend(claimed);
                        continue;
                    }
                    Err(RunsError::Saver(error @ SaverError::Damaged { .. })) => {
                        passes = true;
                        self.0.unreadable.pass_over(thread, error).map_err(RunsError::from)
                    }
                    Err(error) => Err(error),
                };
                failed = failed.or(refused.err());
            }
            match failed {
                Some(error) if made.is_empty() => return Err(error),
                Some(error) => tracing::warn!(%error, "a thread cannot be claimed; it is tried again"),
                None => {}
            }
        }
        Ok((made, passes))
    }
}

fn refused(answer: Answer, change: &ThreadChange) -> RunsError {
    let thread = &change.thread;
    match (answer, change.new_run().and_then(|run| run.document.as_ref())) {
        (Answer::Stale, Some(document)) => RunsError::Stale { kind: document.kind.clone(), id: document.id.clone() },
        (Answer::Lacks(channel, version), _) => SaverError::Gone { thread: thread.clone(), channel, version }.into(),
        _ => superseded(thread),
    }
}
