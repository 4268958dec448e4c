//! Who does which run.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hier_checkpoint::checkpoint::{Claim, Lease, SaverError, WhenRunning};
use hier_checkpoint::runs::{Claimed, RunClaim, ThreadChange};
use rusqlite::Connection;

use super::super::fault::Fault;
use super::super::lease;
use super::tables::Tables;
use super::{Decided, apply};

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
            match apply(tables, ThreadChange::start(&*thread, claim.clone()), None, now) {
                Ok(changed) => claimed.extend(changed.ok().flatten().and_then(|changed| changed.claimed)),
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

/// Takes the thread for a run, unless somebody holds it.
pub(super) fn hold(connection: &Connection, thread: &str, claim: &RunClaim) -> Result<Option<Lease>, Fault> {
    let (holder, lasts) = (claim.holder.clone(), claim.lasts);
    let claim = Claim { holder, lasts, when_running: WhenRunning::Reject, ..Claim::default() };
    Ok(lease::claim(connection, thread, &claim)?.ok())
}
