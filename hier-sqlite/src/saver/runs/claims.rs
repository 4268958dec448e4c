//! Assigns runs to workers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hier_checkpoint::checkpoint::{Claim, Lease, SaverError, WhenRunning};
use hier_runs::{Claimed, RunClaim, ThreadChange};
use rusqlite::Connection;

use super::super::fault::Fault;
use super::super::lease;
use super::tables::RunTables;
use super::{Decided, apply};

/// The number of threads that a claim reads at a time.
const CANDIDATES: usize = 100;

/// The minimum interval between searches for runs of lost workers, which read all runs in progress.
const LOST_EVERY: Duration = Duration::from_millis(100);

/// The maximum number of sets of graphs whose last search is known.
const KINDS: usize = 64;

/// The time of the last search for runs of lost workers, by the graphs of the searching worker.
#[derive(Debug, Default)]
pub(in super::super) struct Recovery(Mutex<HashMap<Option<Vec<String>>, Instant>>);

impl Recovery {
    /// Returns true if a search is due. If so, records the search.
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

    /// Makes the next search due at once. Called after a thread was released.
    pub(in super::super) fn is_soon(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

pub(super) fn claim(
    tables: RunTables<'_>,
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
                    tables.unreadable.skip_thread(&thread, error)?;
                    passes = true;
                }
                Err(fault) => return Err(fault),
            }
            if claimed.len() == most {
                return Ok(Ok(claimed));
            }
        }
        // If threads were skipped, the next query returns the threads after them.
        if !passes {
            return Ok(Ok(claimed));
        }
    }
}

/// Claims the thread for a run. Returns `None` if another holder has the thread.
pub(super) fn hold(connection: &Connection, thread: &str, claim: &RunClaim) -> Result<Option<Lease>, Fault> {
    let (holder, lasts) = (claim.holder.clone(), claim.lasts);
    let claim = Claim { holder, lasts, when_running: WhenRunning::Reject, ..Claim::default() };
    Ok(lease::claim(connection, thread, &claim)?.ok())
}
