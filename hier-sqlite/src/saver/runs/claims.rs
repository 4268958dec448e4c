//! Who does which run.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hier_checkpoint::checkpoint::{Claim, SaverError, WhenRunning};
use hier_checkpoint::runs::{Claimed, Queue, RunClaim};
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::lease;
use super::Decided;
use super::tables::Tables;

/// How many threads a claim looks at before it asks for more.
const CANDIDATES: usize = 100;

/// How often runs of lost workers are looked for at most: that means looking at all runs that are being done.
const LOST_EVERY: Duration = Duration::from_millis(100);

/// For how many kinds of workers that is known at most.
const KINDS: usize = 64;

/// When runs of lost workers were looked for last, for each list of graphs that a worker has: who has other graphs does not find them.
#[derive(Debug, Default)]
pub(in super::super) struct Recovery(Mutex<HashMap<Option<Vec<String>>, Instant>>);

impl Recovery {
    /// Whether they are to be looked for; then not again for a while.
    pub(super) fn is_due(&self, graphs: Option<&[String]>) -> bool {
        let (graphs, mut last) =
            (graphs.map(<[String]>::to_vec), self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let is_due = last.get(&graphs).is_none_or(|last| last.elapsed() >= LOST_EVERY);
        if is_due {
            if last.len() >= KINDS {
                last.clear();
            }
            last.insert(graphs, Instant::now());
        }
        is_due
    }

    /// Somebody has let go of a thread: they are looked for next.
    pub(in super::super) fn is_soon(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

pub(super) fn claim(
    tables: Tables<'_>,
    (claim, most, lost): (&RunClaim, usize, bool),
    now: SystemTime,
) -> Decided<Vec<Claimed>> {
    let graphs = claim.graphs.as_deref();
    let mut claimed = Vec::new();
    loop {
        let mut passes = false;
        for thread in tables.ready(graphs, now, CANDIDATES, lost)? {
            match claim_of(tables, &thread, claim, now) {
                Ok(found) => claimed.extend(found),
                Err(Fault::Saver(error @ SaverError::Damaged { .. })) => {
                    tables.unreadable.pass_over(&thread, error)?;
                    passes = true;
                }
                Err(fault) => return Err(fault),
            }
            if claimed.len() == most {
                return Ok(Ok(claimed));
            }
        }
        // In the place of those that are passed over are now those that come after them.
        if !passes {
            return Ok(Ok(claimed));
        }
    }
}

/// Claims a run of this thread, if that can be done now. Nothing has changed if its rows cannot be read.
fn claim_of(tables: Tables<'_>, thread: &str, claim: &RunClaim, now: SystemTime) -> Result<Option<Claimed>, Fault> {
    let graphs = claim.graphs.as_deref();
    let Some(mut queue) = tables.queue(thread)?.filter(|queue| queue.head(graphs, now).is_some()) else {
        return Ok(None);
    };
    let Ok(lease) = lease::claim(tables.connection, thread, &of_thread(claim))? else { return Ok(None) };
    let Some(run) = queue.start(graphs, now) else { return Ok(None) };
    tables.store(queue, now)?;
    Ok(Some(Claimed::new(run, lease)))
}

/// Claims the run that was just added, if that can be done now. Whoever calls stores what has changed.
pub(super) fn claim_added(
    tables: Tables<'_>,
    queue: &mut Queue,
    id: Uuid,
    claim: &RunClaim,
    now: SystemTime,
) -> Result<Option<Claimed>, Fault> {
    let graphs = claim.graphs.as_deref();
    if queue.head(graphs, now).is_none_or(|head| head.id != id) {
        return Ok(None);
    }
    let lease = lease::claim(tables.connection, &queue.thread().id, &of_thread(claim))?;
    let Ok(lease) = lease else { return Ok(None) };
    Ok(queue.start_added(id, graphs, now).map(|run| Claimed::new(run, lease)))
}

/// A claim of a run as one of its thread.
fn of_thread(claim: &RunClaim) -> Claim {
    let (holder, lasts) = (claim.holder.clone(), claim.lasts);
    Claim { holder, lasts, when_running: WhenRunning::Reject, ..Claim::default() }
}
