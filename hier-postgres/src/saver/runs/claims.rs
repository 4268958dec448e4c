//! Adding runs, and claiming them.

use std::time::Duration;

use futures_util::future::join_all;
use hier_checkpoint::checkpoint::{Lease, SaverError};
use hier_checkpoint::runs::{Claimed, NewRun, Queue, Run, RunClaim, RunStatus, RunsError};
use uuid::Uuid;

use super::super::Postgres;
use super::super::lease::millis;
use super::super::session::retrying;
use super::super::text::claimed_by;
use super::change::{Answer, Beside, Seen};
use super::see::Waiting;
use super::store::{Asked, Changed};
use super::tables::Tables;
use super::{look, refused};
use hier_checkpoint::backend::run_rows::no_thread;

impl Postgres {
    /// Adds a run, and claims it if that is asked for and nothing is in its way. None, and nothing was stored, if somebody else has claimed
    /// the thread.
    pub(super) async fn add(
        &self,
        run: &NewRun,
        asked: Option<&RunClaim>,
    ) -> Result<Option<(Run, Option<Claimed>)>, RunsError> {
        // One id for all attempts, so that it is added once.
        let id = run.id.unwrap_or_else(Uuid::new_v4);
        let holder = asked.map(|asked| claimed_by(&asked.holder));
        let claim = holder.as_deref().zip(asked.map(|asked| millis(asked.lasts)));
        let beside = Beside { document: run.document.as_ref(), claim, ..Beside::default() };
        let decide = |seen: &Seen| {
            let (mut queue, added) = added(seen, run, id)?;
            let begun = asked.and_then(|asked| queue.start_added(id, asked.graphs.as_deref(), seen.now));
            Ok(Some((queue, (added, begun))))
        };
        let asking = Asked { beside, new: Some(id), ..Asked::of(&run.thread) };
        let made = match Box::pin(self.change(asking, decide)).await? {
            Changed::Stored { result: (added, begun), token, .. } => (added, begun.map(|begun| (begun, token))),
            Changed::Before(seen) => {
                let there = seen.there.ok_or_else(|| no_thread(&run.thread))?;
                // It may have been claimed, and the answer was lost.
                let token = match &holder {
                    Some(holder) => look!(self, tables => tables.token_of(&run.thread, holder).await)?,
                    None => None,
                };
                (there.clone(), token.map(|token| (there, token)))
            }
            Changed::Refused(Answer::Taken) => return Ok(None),
            Changed::Refused(answer) => return Err(refused(&answer, &run.thread, run.document.as_ref())),
            Changed::Nothing => return Err(no_thread(&run.thread)),
        };
        let (added, begun) = made;
        self.0.bell.ring_added(&run.thread, run.multitask_strategy);
        if begun.is_none() {
            self.0.bell.ring_runs();
        }
        self.tell(&run.thread, begun.is_none() || !run.multitask_strategy.spares_others());
        let lasts = asked.map_or(Duration::ZERO, |asked| asked.lasts);
        let claimed = begun.map(|(begun, token)| Claimed::new(begun, Lease::new(&*run.thread, token, lasts)));
        Ok(Some((added, claimed)))
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
                match seen.clone() {
                    Ok(seen) => self.claim_of(thread, seen, asked).await,
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

    /// Claims a run of this thread, if that can be done now. It waits for nobody who is at work on the thread.
    pub(super) async fn claim_of(
        &self,
        thread: &str,
        seen: Option<Seen>,
        asked: &RunClaim,
    ) -> Result<Option<Claimed>, RunsError> {
        let graphs = asked.graphs.as_deref();
        let holder = claimed_by(&asked.holder);
        let decide = |seen: &Seen| {
            let Some(mut queue) = seen.queue() else { return Ok(None) };
            Ok(queue.start(graphs, seen.now).map(|run| (queue, run)))
        };
        let beside = Beside { claim: Some((&holder, millis(asked.lasts))), ..Beside::default() };
        let asking = Asked { beside, known: seen, waits: false, ..Asked::of(thread) };
        match Box::pin(self.change(asking, decide)).await? {
            Changed::Stored { result, token, .. } => {
                Ok(Some(Claimed::new(result, Lease::new(thread, token, asked.lasts))))
            }
            Changed::Before(seen) => {
                // It was claimed, and the answer was lost.
                let token = look!(self, tables => tables.token_of(thread, &holder).await)?;
                let running =
                    seen.thread.and_then(|(_, live)| live.into_iter().find(|run| run.status == RunStatus::Running));
                Ok(token.zip(running).map(|(token, run)| Claimed::new(run, Lease::new(thread, token, asked.lasts))))
            }
            Changed::Nothing | Changed::Refused(_) => Ok(None),
        }
    }
}

/// Adds a run to what is there.
fn added(seen: &Seen, run: &NewRun, id: Uuid) -> Result<(Queue, Run), RunsError> {
    if seen.there.is_some() {
        return Err(RunsError::Exists { kind: "run", id: id.to_string() });
    }
    let mut queue = match seen.queue() {
        Some(queue) => queue,
        None => Queue::new(Queue::thread_for(run, seen.now)?, Vec::new()),
    };
    let mut new = run.clone();
    new.id = Some(id);
    let added = queue.add(new, seen.number, seen.now)?;
    Ok((queue, added))
}
