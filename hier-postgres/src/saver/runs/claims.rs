use std::sync::Arc;

use futures_util::future::join_all;
use hier_checkpoint::checkpoint::SaverError;
use hier_runs::{Changed, Claimed, RunClaim, RunQuery, RunStatus, RunsError, ThreadAction, ThreadChange, ThreadStatus};

use super::super::Postgres;
use super::super::session::retrying;
use super::super::text::claimed_by;
use super::change::{ChangeAnswer, ChangeExtras, LoadedThread, claimed};
use super::look;
use super::store::{ChangeOutcome, ChangeRequest};
use super::tables::RunTables;
use super::thread_reads::WaitingThreads;
use hier_checkpoint::backend::rows::Batch;
use hier_runs::rows::{no_thread, superseded};

impl Postgres {
    /// Stores a change with these records. Returns `None` and stores nothing if the change starts no run or another
    /// holder has claimed the thread. A change that only starts a run does not wait for another process that is
    /// changing the thread.
    pub(super) async fn apply(
        &self,
        change: &ThreadChange,
        records: Option<&Arc<Batch>>,
        known: Option<LoadedThread>,
    ) -> Result<Option<Changed>, RunsError> {
        let waits = !matches!(change.action, ThreadAction::Start(_));
        let holder = change.claim().map(|claim| claimed_by(&claim.holder));
        let extras = ChangeExtras::new(change, holder.as_deref(), records);
        match Box::pin(self.store_change(ChangeRequest { change, extras, known, waits })).await? {
            ChangeOutcome::Stored(changed) => Ok(Some(*changed)),
            ChangeOutcome::Before(seen) => self.stored_before(change, holder.as_deref(), *seen).await.map(Some),
            ChangeOutcome::Nothing | ChangeOutcome::Refused(ChangeAnswer::Taken) => Ok(None),
            ChangeOutcome::Refused(_) if !waits => Ok(None),
            ChangeOutcome::Refused(answer) => Err(self.refused(answer, change).await),
        }
    }

    /// Returns the result of a change that was stored although its answer was lost. Derives the result from the current
    /// state of the thread.
    async fn stored_before(
        &self,
        change: &ThreadChange,
        holder: Option<&str>,
        seen: LoadedThread,
    ) -> Result<Changed, RunsError> {
        let thread = &*change.thread;
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
                // These are the current runs, because their earlier state is not stored.
                let mut query = RunQuery::thread(thread);
                query.limit = usize::MAX;
                let runs = look!(self, tables => tables.runs(&query).await)?;
                (runs.into_iter().filter(|run| cancelled.contains(&run.id)).collect(), None)
            }
            ThreadAction::Patch(_) | ThreadAction::Commit(..) | ThreadAction::Requeue(..) => (Vec::new(), None),
        };
        Ok(Changed { last_event, is_busy, runs, claimed: claimed(change, started, token) })
    }

    /// Claims a run of each of the first `most` threads. If none of these runs can be claimed, continues with the next
    /// threads. Also returns true if a thread was skipped because it cannot be read. If a claim fails, still returns
    /// the other claims.
    pub(super) async fn claim_of_those(
        &self,
        mut waiting: WaitingThreads,
        request: &RunClaim,
        most: usize,
    ) -> Result<(Vec<Claimed>, bool), RunsError> {
        let (mut made, mut passes) = (Vec::new(), false);
        while made.is_empty() && !waiting.is_empty() {
            let next: Vec<_> = waiting.drain(..waiting.len().min(most)).collect();
            let claims = next.iter().map(|(thread, seen)| async {
                let change = ThreadChange::start(&**thread, request.clone());
                match seen.clone() {
                    Ok(seen) => Ok(self.apply(&change, None, seen).await?.and_then(|changed| changed.claimed)),
                    Err(error) => Err(error.into()),
                }
            });
            // The claims run at the same time, so that they share a statement. A claim does not wait for another
            // process, because the other claims already hold their threads.
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
                        self.0.unreadable.skip_thread(thread, error).map_err(RunsError::from)
                    }
                    Err(error) => Err(error),
                };
                failed = failed.or(refused.err());
            }
            match failed {
                Some(error) if made.is_empty() => return Err(error),
                Some(error) => tracing::warn!(%error, "failed to claim a thread; trying again"),
                None => {}
            }
        }
        Ok((made, passes))
    }

    async fn refused(&self, answer: ChangeAnswer, change: &ThreadChange) -> RunsError {
        let thread = &change.thread;
        match (answer, change.new_run().and_then(|run| run.document.as_ref())) {
            (ChangeAnswer::Stale, Some(document)) => {
                RunsError::Stale { kind: document.kind.clone(), id: document.id.clone() }
            }
            (ChangeAnswer::Lacks(channel, version), _) => {
                SaverError::Gone { thread: thread.clone(), channel, version }.into()
            }
            _ => self.superseded(change).await,
        }
    }

    /// Returns the error for a change whose lease is no longer current.
    pub(super) async fn superseded(&self, change: &ThreadChange) -> RunsError {
        match change.lease() {
            Some(lease) => self.lost(&lease.thread, lease.token).await.into(),
            None => superseded(&change.thread),
        }
    }
}
