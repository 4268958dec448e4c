//! How a Postgres store is reached.

use std::time::Duration;

use hier_checkpoint::checkpoint::{Conversations, SaverError};

use super::Postgres;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// How long a statement may take at least and at most, unless it is said.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(30);

/// How a Postgres store is reached, see [`Postgres::options`].
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
    /// The schema with the tables; `hier` by default. Stores in different schemas know nothing of each other. Small letters,
    /// digits and `_`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// How many connections are used at most; 8 by default.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.max(1);
        self
    }

    /// How long to try again when the server cannot be reached; 30 seconds by default, at most 5 of them while connecting.
    /// What is tried again is stored once.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// How long a statement may wait for its answer, and a call for a connection: the connection is closed then, and the call
    /// tried again as [`PostgresOptions::retry_for`] says. By default as long as calls are tried again, but at least
    /// 5 seconds and at most 30. Give more if pruning or listing very long threads takes longer. A call whose statement is shared with
    /// others waits so long for it, and is sent alone then.
    pub fn statement_timeout(mut self, time: Duration) -> Self {
        self.statement_timeout = Some(time);
        self
    }

    pub(super) fn limit(&self) -> Duration {
        self.statement_timeout.unwrap_or_else(|| self.retry_for.clamp(SHORTEST, LONGEST))
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
    /// with the new one and `decrypt_with` the old one, then [`Postgres::reencrypt`] stores everything anew, and the old one can go.
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

    /// Reaches the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, see [`Postgres::connect`].
    pub async fn connect(self, url: &str) -> Result<Postgres, SaverError> {
        Postgres::start(url, self).await
    }
}
