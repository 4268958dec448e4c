//! Changes of a thread's runs: what is there is read, what becomes of it is decided here, and it is stored on condition that nobody
//! else has changed it meanwhile. Two statements, and no transaction that is open while we think.

use std::sync::Arc;
use std::time::SystemTime;

use hier_checkpoint::checkpoint::{Deletion, Lease, SideEffects};
use hier_checkpoint::runs::{Claimed, Document, Queue, Run, ThreadAction, ThreadChange, ThreadRow, ThreadSnapshot};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::delete;
use super::super::fault::Fault;
use super::super::lease::millis;
use super::super::text::escape;
use super::super::undo::Kept;
use super::tables::Tables;
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::run_rows::number;

/// A thread with its runs as it was read.
#[derive(Clone, Debug)]
pub(in super::super) struct Seen {
    /// The thread, and its runs that have not ended; none if there is no thread.
    pub(super) thread: Option<(ThreadRow, Vec<Run>)>,
    /// The last change.
    pub(super) op: Option<Uuid>,
    /// The server's time.
    pub(super) now: SystemTime,
    /// A number for a new run, if one is to be added.
    pub(super) number: u64,
    /// The run that is there already under the id of the new one.
    pub(super) there: Option<Run>,
}

/// What is stored together with what becomes of the runs.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The thread has to be held with this lease.
    pub(super) lease: Option<&'a Lease>,
    /// And is released.
    pub(super) ends: bool,
    /// The thread is claimed if a run of it begins, by whom and for how many milliseconds.
    pub(super) claim: Option<(&'a str, i64)>,
    /// Checkpoints, and what tasks have done.
    pub(super) records: Option<&'a Arc<Batch>>,
    /// What is changed beside the records; not nothing.
    pub(super) also: Option<&'a SideEffects>,
    /// A document that has to have this revision, and is replaced.
    pub(super) document: Option<&'a Document>,
}

impl<'a> Beside<'a> {
    /// What this change stores beside the runs, with its records as they are encoded. `holder` is the stored holder of its claim.
    pub(super) fn of(change: &'a ThreadChange, holder: Option<&'a str>, records: Option<&'a Arc<Batch>>) -> Self {
        let also = match &change.action {
            ThreadAction::Commit(_, settlement) => Some(&settlement.also).filter(|also| !also.is_empty()),
            _ => None,
        };
        Self {
            lease: change.lease(),
            ends: change.releases(),
            claim: holder.zip(change.claim().map(|claim| millis(claim.lasts))),
            records,
            also,
            document: change.new_run().and_then(|run| run.document.as_ref()),
        }
    }
}

/// What came of a change.
#[derive(Debug)]
pub(in super::super) enum Answer {
    /// It is stored. The token of the claim, if there is one.
    Done(u64),
    /// Somebody else has changed the runs since they were read.
    Changed,
    /// The document has another revision.
    Stale,
    /// The thread is not held with the lease.
    Superseded,
    /// Somebody else holds the thread.
    Taken,
    /// The records build on a value of this channel and version, which is not there.
    Lacks(String, Uuid),
    /// They follow a checkpoint that is not there, and may build on values that are.
    LacksParent,
    /// Somebody is at work on the thread, and it was not waited for.
    Alone,
}

impl Tables<'_> {
    /// The token of a thread that this one holds.
    pub(super) async fn token_of(&self, thread: &str, holder: &str) -> Result<Option<u64>, Fault> {
        let name = escape(thread);
        let sql = "select token from {s}.threads where name = $1 and holder = $2";
        let rows = self.query(sql, &[(&name, Type::TEXT), (&holder, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(number))
    }

    /// Until the end of the transaction nobody else changes the thread.
    pub(super) async fn hold(&self, thread: &str) -> Result<(), Fault> {
        let name = escape(thread);
        self.query("select 1 from {s}.run_threads where name = $1 for update", &[(&name, Type::TEXT)]).await.map(|_| ())
    }

    /// Undoes runs in a transaction that locks the thread. Its lease is not affected.
    pub(super) async fn undo(&self, thread: &str, runs: &[Uuid]) -> Result<(), Fault> {
        for run in runs {
            self.kept().undo(thread, *run).await?;
        }
        let runs: Vec<String> = runs.iter().map(Uuid::to_string).collect();
        let plan = |history: &delete::History| Deletion {
            ends_lease: false,
            ..Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), &runs)
        };
        let change = delete::Change { session: self.session, client: self.client, vault: self.vault };
        change.delete_some(thread, &plan).await.map(|_| ())
    }

    /// Returns the records that are kept until runs end.
    pub(super) fn kept(&self) -> Kept<'_> {
        Kept { session: self.session, client: self.client }
    }
}

impl Seen {
    /// What becomes of the thread is decided with this.
    pub(super) fn snapshot(&self) -> ThreadSnapshot {
        let queue = self.thread.as_ref().map(|(thread, live)| Queue::new(thread.clone(), live.clone()));
        ThreadSnapshot { number: self.number, is_taken: self.there.is_some(), ..ThreadSnapshot::new(queue, self.now) }
    }
}

/// The run that was started, with the lease that its claim has got.
pub(super) fn claimed(change: &ThreadChange, started: Option<Run>, token: Option<u64>) -> Option<Claimed> {
    let lease = Lease::new(&*change.thread, token?, change.claim()?.lasts);
    Some(Claimed::new(started?, lease))
}
