//! Options of connections to Postgres.

use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Postgres;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// Bounds of the default statement timeout.
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
    /// Sets the schema of the tables: at most 63 lowercase letters, digits and `_`. Different schemas are independent
    /// of each other. Defaults to `hier`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the maximum number of connections. Defaults to 8.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// Sets how long calls are retried while the server cannot be reached. The first connection is retried for at most
    /// 5 seconds. A retried call takes effect only once. Defaults to 30 seconds.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets how long a statement may take, and how long a call waits for a connection. Defaults to
    /// [`PostgresOptions::retry_for`], but at least 5 and at most 30 seconds.
    ///
    /// If a statement takes longer, its connection is closed and the call is retried. Use a higher limit if pruning or
    /// listing very long threads takes longer.
    pub fn statement_timeout(mut self, time: Duration) -> Self {
        self.statement_timeout = Some(time);
        self
    }

    pub(super) fn limit(&self) -> Duration {
        self.statement_timeout.unwrap_or_else(|| self.retry_for.clamp(SHORTEST, LONGEST))
    }

    /// Sets the approximate size in bytes of the cache of conversations between runs ([`Conversations`]). 0 disables
    /// it. Defaults to 32 MiB.
    pub fn keep_conversations(mut self, bytes: usize) -> Self {
        self.conversations = bytes;
        self
    }

    /// Compresses new rows if that saves space. Existing rows stay readable. Defaults to no compression.
    #[cfg(feature = "compression")]
    pub fn compress(mut self) -> Self {
        self.vault.compress();
        self
    }

    /// Encrypts checkpoints, values and writes. Rows that are not encrypted with this key, or were moved from another
    /// place or database, are refused.
    ///
    /// Ids and the names of threads, namespaces, channels and holders are not encrypted. A missing row, or an earlier
    /// version of a row in its own place, is not detected.
    ///
    /// To replace a key:
    ///
    /// 1. Give the new key to all processes with [`decrypt_with`](Self::decrypt_with).
    /// 2. Use `encrypt` with the new key and `decrypt_with` with the old key.
    /// 3. Call [`Postgres::reencrypt`], and remove the old key.
    #[cfg(feature = "encryption")]
    pub fn encrypt(mut self, key: &hier_checkpoint::Key) -> Self {
        self.vault.encrypt(key);
        self
    }

    /// Also reads rows that were encrypted with this key, in addition to that of [`encrypt`](Self::encrypt).
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
