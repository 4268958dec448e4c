//! The options of a SQLite store.

use std::path::Path;
use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Sqlite;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The failures that a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survives {
    /// A commit survives a kill of the process. After a power cut or a crash of the operating system, the last commits
    /// may be missing, but the file is not damaged.
    #[default]
    Crash,
    /// A commit also survives a power cut and a crash of the operating system. Each commit waits for the disk, which
    /// makes it several times slower.
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

    /// Sets how long a call waits while another process writes to the file. After this time, the call fails. Defaults
    /// to 10 seconds.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// Sets the approximate size in bytes of the cache for the conversations of recent runs ([`Conversations`]). With
    /// this cache, the next run of a thread need not read the conversation again. 0 disables the cache. Defaults to 32
    /// MiB.
    pub fn keep_conversations(mut self, bytes: usize) -> Self {
        self.conversations = bytes;
        self
    }

    /// Compresses new values if this saves space. Existing values stay readable. By default, values are not compressed.
    #[cfg(feature = "compression")]
    pub fn compress(mut self) -> Self {
        self.vault.compress();
        self
    }

    /// Encrypts the data of a saver, run store or store that is opened with these options. A read fails with
    /// [`SaverError::Damaged`] or [`SaverError::Unusable`] if a value is not encrypted with this key or a key of
    /// [`decrypt_with`](Self::decrypt_with), or was moved from another row or database.
    ///
    /// Ids, names, times, sizes, keys of items and the statuses of runs are not encrypted. The names include those of
    /// threads, namespaces, channels, graphs and signals, of the holders of leases, and of the users who have created
    /// crons. The saver does not detect a removed row, or a row that was replaced by an earlier version of itself.
    ///
    /// To replace a key:
    ///
    /// 1. Restart all processes with the old key in `encrypt` and the new key in [`decrypt_with`](Self::decrypt_with).
    /// 2. Restart all processes with the new key in `encrypt` and the old key in `decrypt_with`.
    /// 3. Call [`Sqlite::reencrypt`]. Afterwards you can remove the old key, unless items of a
    ///    [`SqliteStore`](crate::SqliteStore) are encrypted with the old key. `reencrypt` does not change these items.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.encrypt(key);
        self
    }

    /// Adds a key for reading. The saver can then read values that were encrypted with this key or with the key of
    /// [`encrypt`](Self::encrypt).
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
    /// a newer version of hier.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, SaverError> {
        Sqlite::start(Some(path.as_ref().to_owned()), self).await
    }

    /// Opens a database in memory. The database is discarded when the last clone of the saver is dropped.
    pub async fn in_memory(self) -> Result<Sqlite, SaverError> {
        Sqlite::start(None, self).await
    }
}
