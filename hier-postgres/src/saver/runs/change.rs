//! Changes of a thread's runs. A change reads the thread, decides, and stores the result unless another process has
//! changed the thread meanwhile. This takes two statements and no transaction.

use std::sync::Arc;
use std::time::SystemTime;

use hier_checkpoint::checkpoint::{Deletion, Lease, SideEffects};
use hier_runs::{Claimed, Document, Queue, Run, ThreadAction, ThreadChange, ThreadRow, ThreadSnapshot};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::delete;
use super::super::fault::PostgresFault;
use super::super::lease::millis;
use super::super::text::escape;
use super::super::undo::UndoLog;
use super::tables::RunTables;
use hier_checkpoint::backend::rows::Batch;
use hier_runs::rows::number;

/// A thread with its runs, as a statement has read it.
#[derive(Clone, Debug)]
pub(in super::super) struct LoadedThread {
    /// The thread and its live runs. `None` if it does not exist.
    pub(super) thread: Option<(ThreadRow, Vec<Run>)>,
    pub(super) op: Option<Uuid>,
    pub(super) now: SystemTime,
    /// The number for a run that the change may add.
    pub(super) number: u64,
    /// The existing run that already has the id of the run to add.
    pub(super) there: Option<Run>,
}

#[derive(Clone, Copy)]
pub(super) struct ChangeExtras<'a> {
    /// The lease that must hold the thread.
    pub(super) lease: Option<&'a Lease>,
    /// True if the change ends the lease.
    pub(super) ends: bool,
    /// Claims the thread if a run starts. Contains the stored holder, and the duration in milliseconds.
    pub(super) claim: Option<(&'a str, i64)>,
    pub(super) records: Option<&'a Arc<Batch>>,
    /// The side effects of the change. `None` if they would be empty.
    pub(super) also: Option<&'a SideEffects>,
    /// A document that the change replaces if its revision matches.
    pub(super) document: Option<&'a Document>,
}

impl<'a> ChangeExtras<'a> {
    /// Returns the extras of a change. `holder` is the stored holder of its claim, and `records` are its encoded
    /// records.
    pub(super) fn new(change: &'a ThreadChange, holder: Option<&'a str>, records: Option<&'a Arc<Batch>>) -> Self {
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

#[derive(Debug)]
pub(in super::super) enum ChangeAnswer {
    /// The change is stored. Contains the token of its claim, or 0.
    Done(u64),
    /// Another process has changed the runs since they were read.
    Changed,
    /// The document has another revision.
    Stale,
    Superseded,
    /// Another holder has the thread.
    Taken,
    /// A delta of the records has a base with this channel and version, which does not exist.
    Lacks(String, Uuid),
    /// The parent checkpoint of the records does not exist, but the base values of their deltas may exist.
    LacksParent,
    /// Another process is changing the thread, and the change did not wait.
    Alone,
}

impl RunTables<'_> {
    pub(super) async fn token_of(&self, thread: &str, holder: &str) -> Result<Option<u64>, PostgresFault> {
        let name = escape(thread);
        let sql = "select token from {s}.threads where name = $1 and holder = $2";
        let rows = self.query(sql, &[(&name, Type::TEXT), (&holder, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(number))
    }

    pub(super) async fn is_held(&self, lease: &Lease) -> Result<bool, PostgresFault> {
        let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
        let sql = "select 1 from {s}.threads where name = $1 and token = $2 and holder is not null";
        Ok(!self.query(sql, &[(&name, Type::TEXT), (&token, Type::INT8)]).await?.is_empty())
    }

    /// Locks the row of the thread until the end of the transaction.
    pub(super) async fn hold(&self, thread: &str) -> Result<(), PostgresFault> {
        let name = escape(thread);
        self.query("select 1 from {s}.run_threads where name = $1 for update", &[(&name, Type::TEXT)]).await.map(|_| ())
    }

    /// Undoes runs in a transaction that locks the thread. The lease remains valid.
    pub(super) async fn undo(&self, thread: &str, runs: &[Uuid]) -> Result<(), PostgresFault> {
        for run in runs {
            self.kept().undo(thread, *run).await?;
        }
        let runs: Vec<String> = runs.iter().map(Uuid::to_string).collect();
        let plan = |history: &delete::History| Deletion {
            ends_lease: false,
            ..Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), &runs)
        };
        let change = delete::ThreadEditor { session: self.session, client: self.client, vault: self.vault };
        change.delete_some(thread, &plan).await.map(|_| ())
    }

    pub(super) fn kept(&self) -> UndoLog<'_> {
        UndoLog { session: self.session, client: self.client }
    }
}

impl LoadedThread {
    /// Returns the input of the decision.
    pub(super) fn snapshot(&self) -> ThreadSnapshot {
        let queue = self.thread.as_ref().map(|(thread, live)| Queue::new(thread.clone(), live.clone()));
        ThreadSnapshot { number: self.number, is_taken: self.there.is_some(), ..ThreadSnapshot::new(queue, self.now) }
    }
}

/// Returns the started run with the lease of its claim.
pub(super) fn claimed(change: &ThreadChange, started: Option<Run>, token: Option<u64>) -> Option<Claimed> {
    let lease = Lease::new(&*change.thread, token?, change.claim()?.lasts);
    Some(Claimed::new(started?, lease))
}
