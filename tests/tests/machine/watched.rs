//! A layer around a saver that reports to the world, and that can have a fault.

use std::sync::Arc;

use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, LeaseState,
    PostOutcome, SaverError, WhenRunning, WriteRecord, codec,
};
use hier_testkit::SaverLayer;
use uuid::Uuid;

use crate::world::World;

/// A fault of a saver, which the machine must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// It loses what tasks wrote.
    Forgets,
    /// It accepts the records of a run that lost its thread.
    TakesStale,
    /// It loses what tasks wrote to the conversation.
    LosesTalk,
    /// It stores payloads as JSON.
    SendsJson,
}

/// A layer around a saver that records claimed threads and committed tasks.
pub(crate) struct Watched {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) world: World,
    pub(crate) fault: Fault,
}

#[async_trait]
impl SaverLayer for Watched {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        self.world.claims(thread);
        Ok(lease)
    }

    async fn commit(&self, lease: &Lease, mut commit: Commit) -> Result<LeaseState, SaverError> {
        let records = &mut commit.records;
        let done: Vec<Uuid> = records.iter().filter_map(done).collect();
        match self.fault {
            Fault::Forgets => records.retain(|record| matches!(record, WriteRecord::Checkpoint { .. })),
            Fault::LosesTalk => records.iter_mut().for_each(without_talk),
            Fault::SendsJson => records.iter_mut().for_each(as_json),
            Fault::None | Fault::TakesStale => {}
        }
        let again = (self.fault == Fault::TakesStale).then(|| commit.clone());
        let state = match (self.saver.commit(lease, commit).await, again) {
            (Err(SaverError::Superseded { .. }), Some(commit)) => {
                let claim = Claim { when_running: WhenRunning::TakeOver, ..Claim::default() };
                let lease = self.saver.acquire(&lease.thread, claim).await?;
                self.saver.commit(&lease, commit).await?
            }
            (stored, _) => stored?,
        };
        self.world.commits(&lease.thread, done);
        Ok(state)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.saver.capabilities().with_inbox(self)
    }
}

#[async_trait]
impl Inbox for Watched {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.saver.inbox()?.post(thread, graph, letter).await
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.saver.inbox()?.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        let all = DueQuery::new(query.by, query.graphs, 10_000).after(query.after);
        let mut due = self.saver.inbox()?.due(all).await?;
        due.retain(|due| self.world.knows(&due.thread));
        Ok(due)
    }
}

/// The task whose result a record has: its writes, or none.
fn done(record: &WriteRecord) -> Option<Uuid> {
    match record {
        WriteRecord::Writes { writes, .. } if writes.writes.iter().any(|write| write.slot >= 0) => Some(writes.task),
        _ => None,
    }
}

/// Removes the task's writes to the conversation.
fn without_talk(record: &mut WriteRecord) {
    if let WriteRecord::Writes { writes, .. } = record {
        writes.writes.retain(|write| &*write.channel != "talk");
    }
}

/// Converts payloads through JSON.
fn as_json(record: &mut WriteRecord) {
    let WriteRecord::Checkpoint { checkpoint, .. } = record else { return };
    for send in &mut checkpoint.agenda.sends {
        let json = codec::decode_json(&send.payload);
        if let Some(bytes) = json.ok().and_then(|json| codec::encode(&json).ok()) {
            send.payload = bytes;
        }
    }
}
