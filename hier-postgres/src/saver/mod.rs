//! The checkpoint saver in Postgres.

mod address;
mod batcher;
pub(crate) mod client;
mod commit;
mod copy;
mod delete;
pub(crate) mod fault;
mod keyed_mutex;
mod lease;
mod literal;
mod mail;
mod options;
mod read;
mod records;
mod runs;
mod saved;
mod schema;
pub(crate) mod session;
pub(crate) mod statements;
pub(crate) mod text;
#[cfg(feature = "tls")]
mod tls;
mod undo;

use std::fmt;
use std::sync::{Arc, OnceLock};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{
    Capabilities, CheckpointCache, Checkpointer, Claim, Commit, Conversations, Deletion, Delivered, DueQuery,
    DueThread, Inbox, InboxMessage, Lease, LeaseState, ListQuery, Listed, PostOutcome, Prune, PrunePlan, Saved,
    SaverError, ThreadAdmin, ThreadInfo, check, check_new_thread, check_thread,
};
use hier_runs::ChangeNotifier;
use tokio::sync::Notify;
use uuid::Uuid;

use batcher::Batcher;
use commit::PendingCommit;
use delete::{History, ThreadEditor};
use hier_checkpoint::backend::latest::Latest;
#[cfg(feature = "encryption")]
use hier_checkpoint::backend::retention::{Unread, UnreadRows};
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
use keyed_mutex::KeyedMutex;
pub use options::PostgresOptions;
#[cfg(feature = "encryption")]
use runs::reencrypt::ReencryptCursor;
use session::{PostgresSession, Transaction, first, retrying};

/// A saver and run store in a Postgres database. Clones share the connections.
///
/// ```no_run
/// use hier_postgres::Postgres;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_checkpoint::checkpoint::SaverError> {
/// let saver = Postgres::connect("postgres://desk:secret@localhost/desk").await?;
/// saver.migrate().await?;
/// # Ok(())
/// # }
/// ```
///
/// * A commit is one statement, which also checks the lease. Commits are cancel safe: the first poll of the future
///   queues the commit. The saver then stores the commit even if the future is dropped.
/// * If the saver cannot reach the server, it retries calls for the time that [`PostgresOptions::retry_for`] sets. Then
///   the calls fail. A retried call takes effect only once.
/// * The saver prepares frequent statements on each connection. Some poolers switch connections between transactions,
///   so that prepared statements get lost. If the saver notices this, it prepares no further statements.
///
/// # Encryption
///
/// With the feature `tls`, connections are encrypted if the URL contains `sslmode=require`, `sslmode=verify-ca` or
/// `sslmode=verify-full`. All three values check the certificate and the name of the server, so `require` is stricter
/// than in libpq. By default, the trusted root certificates are those of this machine. If the URL contains
/// `sslrootcert=FILE`, only the certificates in this file are trusted.
#[derive(Clone)]
pub struct Postgres(Arc<PostgresState>);

struct PostgresState {
    session: PostgresSession,
    vault: ValueCodec,
    commits: Arc<Batcher<PendingCommit>>,
    thread_changes: Arc<Batcher<Arc<runs::change_row::ChangeRow>>>,
    thread_reads: Arc<Batcher<runs::thread_reads::ReadRequest>>,
    checkpoint_reads: Arc<Batcher<Arc<saved::SavedQuery>>>,
    document_reads: Arc<Batcher<runs::documents::DocumentRead>>,
    /// Orders claims and releases of a thread, because statements on different connections have no order.
    claim_locks: Arc<KeyedMutex>,
    /// Orders changes of a thread's runs, so that each change starts from the result of the previous change.
    change_locks: Arc<KeyedMutex>,
    thread_cache: runs::thread_cache::ThreadCache,
    latest: Latest,
    outbox: runs::outbox::Outbox,
    /// Wakes callers of this process that wait for a thread.
    released: Notify,
    /// Wakes callers of this process that wait for changes of runs and for events.
    bell: Arc<ChangeNotifier>,
    /// Receives the changes of other processes. The first caller that waits for them starts the listener.
    listener: OnceLock<runs::listen::NotifyListener>,
    /// The rows of runs that cannot be read.
    unreadable: Unreadable,
    conversations: Conversations,
}

impl Postgres {
    /// Connects to the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. To set options, use
    /// [`Postgres::options`]. For a new database, call [`Postgres::migrate`] once before you use the saver.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] if the database cannot be used, or if its tables belong to a newer version
    /// of hier.
    pub async fn connect(url: &str) -> Result<Self, SaverError> {
        Self::options().connect(url).await
    }

    /// Returns the options for connecting to a database, such as the number of connections, time limits and encryption.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Creates or updates the tables. Does nothing if they are up to date. Several processes may call this method at
    /// the same time.
    pub async fn migrate(&self) -> Result<(), SaverError> {
        self.0.session.migrate().await
    }

    async fn start(url: &str, options: PostgresOptions) -> Result<Self, SaverError> {
        let session = PostgresSession::start(url, &options).await?;
        Ok(Self(Arc::new(PostgresState {
            session,
            vault: options.vault.of_a_database(),
            commits: Arc::default(),
            thread_changes: Arc::default(),
            thread_reads: Arc::default(),
            checkpoint_reads: Arc::default(),
            document_reads: Arc::default(),
            claim_locks: Arc::default(),
            change_locks: Arc::default(),
            thread_cache: runs::thread_cache::ThreadCache::default(),
            latest: Latest::default(),
            outbox: runs::outbox::Outbox::default(),
            released: Notify::new(),
            bell: Arc::default(),
            listener: OnceLock::new(),
            unreadable: Unreadable::default(),
            conversations: Conversations::new(options.conversations),
        })))
    }

    /// Returns the error of a call whose task was dropped.
    fn stopped(&self) -> SaverError {
        let reason =
            "the task of this call ended early, because its tokio runtime shut down or the task panicked: call again";
        SaverError::database(&*self.0.session.place, std::io::Error::other(reason))
    }

    /// Encrypts all data of the saver and run store with the key of [`PostgresOptions::encrypt`], and returns the
    /// number of stored threads. Does not encrypt the items of a [`PostgresStore`](crate::PostgresStore). Other
    /// programs can use the database in the meantime. If the call fails or is dropped, call it again.
    ///
    /// # Errors
    ///
    /// If the saver cannot read some threads or rows, it skips them and encrypts the others. The call then fails with
    /// an error that names the skipped threads and rows.
    #[cfg(feature = "encryption")]
    pub async fn reencrypt(&self) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        let (mut done, mut unread) = (0, Unread::default());
        for thread in self.names(None).await? {
            let sealed: Result<u64, SaverError> = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let change = ThreadEditor { session, client: transaction.client(), vault };
                let changed = change.reencrypt(&thread).await;
                transaction.end(changed).await
            });
            done += unread.pass(sealed)?;
        }
        let (mut rows, mut next) = (UnreadRows::default(), Some(ReencryptCursor::start()));
        while let Some(mark) = next {
            let (unread, after) = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let client = transaction.client();
                let tables = runs::tables::RunTables { session, client, vault, unreadable: &self.0.unreadable };
                let sealed = tables.reencrypt(&mark).await;
                transaction.end(sealed).await
            })?;
            rows.add(unread);
            next = after;
        }
        rows.report(unread).map(|()| done)
    }

    async fn ready(&self) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        if vault.lacks_database() {
            let sql = session.statements.with_schema("select id from {s}.identity");
            let rows = retrying!(session, client => session.query(&client, &sql, &[]).await)?;
            vault.set_database(first(&rows).map_err(|fault| fault.into_saver_error(&session.place))?);
        }
        Ok(())
    }

    async fn names(&self, within: Option<&[String]>) -> Result<Vec<String>, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        retrying!(session, client => ThreadEditor { session, client: &client, vault }.names(within).await)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Postgres({})", self.0.session.place)
    }
}

#[async_trait]
impl Checkpointer for Postgres {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        check_thread(thread)?;
        self.claim(thread, &claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.renew_lease(lease).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.release_lease(lease).await
    }

    /// Stores a commit. Never releases the lease.
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        commit.records.iter().try_for_each(check)?;
        let also = commit.also.map(|also| *also);
        let commit = PendingCommit { thread: lease.thread.clone(), token: lease.token, records: commit.records, also };
        let stored = self.enqueue(commit).await.map_err(|_| self.stopped())?;
        stored.map(|()| LeaseState::Held)
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.get_changed(thread, namespace, id, &[]).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        retrying!(session, client => read::list(session, client, &self.0.vault, &query).await)
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        let deleted = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = ThreadEditor { session, client: transaction.client(), vault };
            let changed = change.delete_thread(thread).await;
            transaction.end(changed).await
        });
        self.0.conversations.forget(thread);
        deleted?;
        self.0.released.notify_waiters();
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
            .with_inbox(self)
            .with_admin(self)
            .with_cache(self)
            .with_protected_values(self.0.vault.encrypts())
    }
}

#[async_trait]
impl Inbox for Postgres {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        check_thread(thread)?;
        self.post_letter(thread, None, graph, &letter).await.map(PostOutcome::from)
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.letters(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.due_threads(&query).await
    }
}

#[async_trait]
impl ThreadAdmin for Postgres {
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        retrying!(session, client => read::threads(session, &client, &self.0.vault, limit).await)
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        check_new_thread(to)?;
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        if from == to {
            return Ok(());
        }
        let copied = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = ThreadEditor { session, client: transaction.client(), vault };
            let changed = change.copy_thread(from, to).await;
            transaction.end(changed).await
        });
        self.0.conversations.forget(to);
        copied?;
        self.0.released.notify_waiters();
        Ok(())
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        let plan = |_: &str, history: &History| Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), runs);
        self.delete_of(self.names(None).await?, plan).await.map(|_| ())
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let stored = self.names(prune.threads.as_deref()).await?;
        let plan = PrunePlan::new(prune, stored);
        let deletion =
            |thread: &str, history: &History| plan.deletion(thread, history.iter().map(|(name, it)| (name, it)));
        self.delete_of(plan.threads().to_vec(), deletion).await
    }

    /// Deletes expired threads in several transactions, because a statement that deletes very many rows would exceed its
    /// time limit.
    async fn sweep(&self) -> Result<u64, SaverError> {
        self.ready().await?;
        let swept = self.sweep_threads().await;
        if !matches!(swept, Ok(0)) {
            self.0.conversations.forget_all();
        }
        self.0.released.notify_waiters();
        swept
    }
}

#[async_trait]
impl CheckpointCache for Postgres {
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        self.saved((thread, namespace, id), known).await
    }

    fn conversations(&self) -> Option<&Conversations> {
        Some(&self.0.conversations)
    }
}
