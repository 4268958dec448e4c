//! Stores the commits of a thread in the order of their calls. Commits that wait at the same time share a statement.

use std::sync::Arc;

use hier_checkpoint::checkpoint::{SaverError, SideEffects, WriteRecord};

use super::Postgres;
use super::batcher::{Batchable, Batcher};
use super::records::{BatchOutcome, BatchOwner, store_batch};
use super::session::retrying;
use hier_checkpoint::backend::rows::{Batch, size};

/// The maximum number of rows in a statement. A single commit may have more.
const MAX_ROWS: usize = 2_000;
/// The maximum number of bytes in a statement. A single commit may have more.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// The server's limit for a statement, in bytes, minus a reserve for the protocol.
const STATEMENT_BYTES: usize = 1_000_000_000;

pub(super) struct PendingCommit {
    pub(super) thread: Arc<str>,
    pub(super) token: u64,
    pub(super) records: Vec<WriteRecord>,
    /// The changes in addition to the records. A commit with such changes has its own transaction.
    pub(super) also: Option<SideEffects>,
}

impl Batchable for PendingCommit {
    type Answer = Result<(), SaverError>;

    const MAX_ITEMS: usize = MAX_ROWS;
    const MAX_SIZE: usize = MAX_BYTES;
    const IS_BEST_EFFORT: bool = false;

    fn lane(&self) -> Option<&Arc<str>> {
        Some(&self.thread)
    }

    fn size(&self) -> usize {
        let (rows, bytes) = size(&self.records);
        bytes.max(rows.saturating_mul(MAX_BYTES / MAX_ROWS))
    }

    fn can_follow(&self, previous: &Self) -> bool {
        self.token == previous.token && self.also.is_none() && previous.also.is_none()
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>> {
        &postgres.0.commits
    }

    async fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> Vec<Self::Answer> {
        let count = batch.len();
        vec![postgres.store_commits(batch).await; count]
    }
}

impl Postgres {
    /// Stores commits that have the same thread and token as one commit.
    async fn store_commits(&self, commits: Vec<PendingCommit>) -> Result<(), SaverError> {
        let Some(PendingCommit { thread, token, .. }) = commits.first() else { return Ok(()) };
        let (thread, token) = (thread.clone(), *token);
        let (mut records, mut also) = (Vec::new(), None);
        for commit in commits {
            records.extend(commit.records);
            also = also.or(commit.also);
        }
        self.ready().await?;
        let session = &self.0.session;
        let mut batch = Batch::of(&self.0.vault, &self.0.latest, &thread, records)?;
        check_size(&batch, &thread)?;
        batch.settle();
        let owner = BatchOwner::Held(&thread, token);
        let outcome = match &also {
            Some(also) => self.store_also(&thread, token, &batch, also).await?,
            None => retrying!(session, client => store_batch(session, &client, &owner, &batch).await)?,
        };
        match outcome {
            BatchOutcome::Stored => Ok(()),
            BatchOutcome::NotHeld => Err(self.lost(&thread, token).await),
            BatchOutcome::Lacks(channel, version) => {
                Err(SaverError::Gone { thread: thread.to_string(), channel: channel.to_string(), version })
            }
        }
    }
}

fn check_size(batch: &Batch, thread: &str) -> Result<(), SaverError> {
    let (_, bytes) = batch.size();
    if bytes <= STATEMENT_BYTES {
        return Ok(());
    }
    let hint = "store long values elsewhere, or use `Durability::Sync` or `Durability::Async`, which store each superstep by itself";
    let reason =
        format!("a commit of thread `{thread}` has {bytes} bytes, but Postgres accepts at most {STATEMENT_BYTES}");
    Err(SaverError::Invalid(format!("{reason}: {hint}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hier_checkpoint::checkpoint::{PendingWrite, TaskWrites, WriteRecord};
    use tokio::sync::oneshot::error::TryRecvError;
    use uuid::Uuid;

    use super::super::batcher::Batcher;
    use super::{MAX_BYTES, PendingCommit};

    fn commit(token: u64, bytes: usize) -> PendingCommit {
        let write = PendingWrite { slot: 0, channel: "c".into(), value: vec![0; bytes] };
        let (checkpoint, task) = (Uuid::nil(), Uuid::nil());
        let records = vec![WriteRecord::Writes {
            namespace: "".into(),
            writes: TaskWrites { checkpoint, task, path: "".into(), writes: vec![write] },
        }];
        PendingCommit { thread: "t".into(), token, records, also: None }
    }

    #[test]
    fn batches_are_bounded_in_bytes_and_have_one_token() {
        let batcher = Arc::new(Batcher::default());
        let (sender, _first) = batcher.add(commit(1, MAX_BYTES * 2), None);
        let mut sender = sender.expect("the first commit starts the sender");
        let mut others = Vec::new();
        for token in [1, 1, 1, 1, 1, 2, 2, 1] {
            let (other, answered) = batcher.add(commit(token, MAX_BYTES / 4), None);
            assert!(other.is_none(), "a lane has one sender");
            others.push(answered);
        }
        let sizes: Vec<usize> =
            std::iter::from_fn(|| Some(sender.next_batch().len()).filter(|size| *size > 0)).collect();
        assert_eq!(sizes, [1, 4, 1, 2, 1]);
    }

    /// A sender is dropped if its runtime ends or storing panics, possibly before its first poll.
    #[test]
    fn dropped_sender_drops_pending_commits() {
        let batcher = Arc::new(Batcher::default());
        for has_begun in [false, true] {
            let (sender, mut first) = batcher.add(commit(1, 1), None);
            let (_, mut second) = batcher.add(commit(2, 1), None);
            let mut sender = sender.expect("no other sender exists");
            let batch = has_begun.then(|| sender.next_batch());
            drop((batch, sender));
            assert_eq!(first.try_recv().err(), Some(TryRecvError::Closed));
            assert_eq!(second.try_recv().err(), Some(TryRecvError::Closed));
        }
        // A sender that has ended does not affect the next sender.
        let (sender, _) = batcher.add(commit(1, 1), None);
        let mut ended = sender.expect("a sender");
        assert!(!ended.next_batch().is_empty() && ended.next_batch().is_empty());
        let (next, mut waiting) = batcher.add(commit(1, 1), None);
        drop(ended);
        assert_eq!(waiting.try_recv().err(), Some(TryRecvError::Empty));
        drop(next);
    }
}
