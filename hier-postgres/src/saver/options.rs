use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Postgres;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The bounds of the default statement timeout.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);

/// Options for connecting to a database. [`Postgres::options`] returns them.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a database is reached with them"]
pub struct PostgresOptions {
    pub(super) schema: String,
    pub(super) connections: usize,
    pub(super) retry_for: Duration,
    pub(super) statement_timeout: Option<Duration>,
    pub(super) conversations: usize,
    pub(crate) vault: ValueCodec,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "hier".to_owned(),
            connections: 8,
            retry_for: Duration::from_secs(30),
            statement_timeout: None,
            conversations: Conversations::BYTES,
            vault: ValueCodec::default(),
        }
    }
}

impl PostgresOptions {
    /// Sets the name of the Postgres schema that contains the tables. The name has at most 63 characters: lowercase
    /// letters, digits and `_`. Savers with different schemas are independent of each other. Defaults to `hier`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the maximum number of connections. Defaults to 8. 0 counts as 1.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// Sets the time for which the saver retries a call if it cannot reach the server. A retried call takes effect only
    /// once. Defaults to 30 seconds. `connect` makes the first connection and retries it for at most 5 seconds.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets the time limit of each statement, and of the wait for a free connection. Defaults to the time of
    /// [`PostgresOptions::retry_for`], but at least 5 and at most 30 seconds.
    ///
    /// If a statement exceeds this limit, the saver closes its connection and retries the call. Statements that prune
    /// or list very long threads may need a higher limit.
    pub fn statement_timeout(mut self, time: Duration) -> Self {
        self.statement_timeout = Some(time);
        self
    }

    pub(super) fn limit(&self) -> Duration {
        self.statement_timeout.unwrap_or_else(|| self.retry_for.clamp(SHORTEST, LONGEST))
    }

    /// Sets the approximate size in bytes of the cache for the conversations of recent runs ([`Conversations`]). With
    /// this cache, the next run of a thread need not read the conversation again. 0 disables the cache. Defaults to 32
    /// MiB.
    pub fn keep_conversations(mut self, bytes: usize) -> Self {
        self.conversations = bytes;
        self
    }

    /// Compresses new rows if this saves space. Existing rows stay readable. By default, rows are not compressed.
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
    /// 3. Call [`Postgres::reencrypt`]. Afterwards you can remove the old key, unless items of a
    ///    [`PostgresStore`](crate::PostgresStore) are encrypted with the old key. `reencrypt` does not change these
    ///    items.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.encrypt(key);
        self
    }

    /// Adds a key for reading. The saver can then read rows that were encrypted with this key or with the key of
    /// [`encrypt`](Self::encrypt).
    #[cfg(feature = "encryption")]
    pub fn decrypt_with(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.decrypt_with(key);
        self
    }

    /// Connects to the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. See [`Postgres::connect`].
    pub async fn connect(self, url: &str) -> Result<Postgres, SaverError> {
        Postgres::start(url, self).await
    }
}
