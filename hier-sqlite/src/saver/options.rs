//! The options of a SQLite store.

use std::path::Path;
use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Sqlite;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The failures that a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survives {
    /// A kill of the process at any time. After a power cut or a system crash, the last commits may be missing, but the
    /// file is not damaged.
    #[default]
    Crash,
    /// Power cuts too. Each commit waits for the disk, which makes it several times slower.
    PowerLoss,
}

/// The maximum that SQLite accepts: 24 days.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// Options for opening a SQLite file. [`Sqlite::options`] returns them.
///
/// ```
/// use hier_sqlite::{Sqlite, Survives};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_checkpoint::checkpoint::SaverError> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("desk.db");
/// let saver = Sqlite::options().survives(Survives::PowerLoss).open(path).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct SqliteOptions {
    pub(super) survives: Survives,
    pub(super) busy_timeout: Duration,
    pub(super) conversations: usize,
    pub(crate) vault: ValueCodec,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            survives: Survives::default(),
            busy_timeout: Duration::from_secs(10),
            conversations: Conversations::BYTES,
            vault: ValueCodec::default(),
        }
    }
}

impl SqliteOptions {
    /// Sets the failures that a commit survives. Defaults to [`Survives::Crash`].
    pub fn survives(mut self, survives: Survives) -> Self {
        self.survives = survives;
        self
    }

    /// Sets how long to wait for another process that is writing to the file. Defaults to 10 seconds.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// Sets the approximate size in bytes of the cache of conversations between runs ([`Conversations`]). 0 disables
    /// it. Defaults to 32 MiB.
    pub fn keep_conversations(mut self, bytes: usize) -> Self {
        self.conversations = bytes;
        self
    }

    /// Compresses new values if that saves space. Existing values stay readable. Defaults to no compression.
    #[cfg(feature = "compression")]
    pub fn compress(mut self) -> Self {
        self.vault.compress();
        self
    }

    /// Encrypts checkpoints, values and writes. Values that are not encrypted with this key, or were moved from another
    /// place or database, are refused.
    ///
    /// Ids and the names of threads, namespaces, channels and holders are not encrypted. A missing row, or an earlier
    /// version of a row in its own place, is not detected.
    ///
    /// To replace a key:
    ///
    /// 1. Give the new key to all processes with [`decrypt_with`](Self::decrypt_with).
    /// 2. Use `encrypt` with the new key and `decrypt_with` with the old key.
    /// 3. Call [`Sqlite::reencrypt`], and remove the old key.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.encrypt(key);
        self
    }

    /// Also reads values that were encrypted with this key, in addition to that of [`encrypt`](Self::encrypt).
    #[cfg(feature = "encryption")]
    pub fn decrypt_with(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.decrypt_with(key);
        self
    }

    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] if the file is not a database, belongs to another program or was written by
    /// a newer version.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, SaverError> {
        Sqlite::start(Some(path.as_ref().to_owned()), self).await
    }

    /// Opens a database in memory. It is discarded when the last clone is dropped.
    pub async fn in_memory(self) -> Result<Sqlite, SaverError> {
        Sqlite::start(None, self).await
    }
}
