//! A saver that stops storing after a number of commits, as if the process had died, and lists its records.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Commit, Lease, LeaseState, MemorySaver, SaverError, WriteRecord,
};
use hier_testkit::{Layered, SaverLayer};

/// Behaves like `MemorySaver`, until this many commits have been stored.
pub(crate) struct Faulty {
    pub(crate) memory: MemorySaver,
    left: AtomicUsize,
    /// The stored records, in order.
    pub(crate) records: Mutex<Vec<WriteRecord>>,
}

impl Faulty {
    pub(crate) fn new(memory: &MemorySaver, commits: usize) -> Layered<Self> {
        Layered(Self { memory: memory.clone(), left: AtomicUsize::new(commits), records: Mutex::default() })
    }

    /// Returns true if one more commit is stored.
    fn is_alive(&self, records: &[WriteRecord]) -> Result<(), SaverError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| SaverError::database("storing", std::io::Error::other("the process has died")))?;
        self.records.lock().expect("no test panics here").extend(records.iter().cloned());
        Ok(())
    }
}

#[async_trait]
impl SaverLayer for Faulty {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }

    // Commits in the background stay in the background.
    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_leases_expiring(true)
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.is_alive(&commit.records)?;
        self.memory.commit(lease, commit).await
    }
}
