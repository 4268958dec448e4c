//! How a SQLite store is opened.

use std::path::Path;
use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Sqlite;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survives {
    /// The process being killed at any instant. After a power cut or a crash of the system the last commits may be missing;
    /// what is there is whole.
    #[default]
    Crash,
    /// Power cuts, too. Each commit waits for the disk, which takes several times as long.
    PowerLoss,
}

/// What SQLite can count, in milliseconds: 24 days.
const LONGEST_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// How a SQLite store is opened, see [`Sqlite::options`].
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
    /// What a commit survives; a crash of the process by default.
    pub fn survives(mut self, survives: Survives) -> Self {
        self.survives = survives;
        self
    }

    /// How long to wait for another process that is writing to the same file; 10 seconds by default.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// How many bytes of conversations are kept in memory between the runs of a thread, about; 32 MiB by default, and none with 0. See
    /// [`Conversations`].
    pub fn keep_conversations(mut self, bytes: usize) -> Self {
        self.conversations = bytes;
        self
    }

    /// Compresses what is stored from now on, where it gets smaller. What is there already can be read as before.
    #[cfg(feature = "compression")]
    pub fn compress(mut self) -> Self {
        self.vault.compress();
        self
    }

    /// Encrypts checkpoints, values and writes, and refuses what is not encrypted with this key, or was moved here from another
    /// place or database. The names of threads, namespaces, channels and holders stay readable, and so do the ids; an earlier
    /// version of a row in its own place, or a row that is missing, is not noticed.
    ///
    /// A key is replaced in three steps: all processes get the new one by [`decrypt_with`](Self::decrypt_with), then `encrypt`
    /// with the new one and `decrypt_with` the old one, then [`Sqlite::reencrypt`] stores everything anew, and the old one can go.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.encrypt(key);
        self
    }

    /// Also reads what was encrypted with this key, beside the one of [`encrypt`](Self::encrypt).
    #[cfg(feature = "encryption")]
    pub fn decrypt_with(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.decrypt_with(key);
        self
    }

    /// Opens the file, which is made if it is not there.
    ///
    /// [`SaverError::Unusable`] if it is no database, or none of ours, or of a newer version.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite, SaverError> {
        Sqlite::start(Some(path.as_ref().to_owned()), self).await
    }

    /// A database in memory, gone with its last clone.
    pub async fn in_memory(self) -> Result<Sqlite, SaverError> {
        Sqlite::start(None, self).await
    }
}
