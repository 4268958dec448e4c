//! The saver in Postgres.

mod address;
pub(crate) mod client;
mod delete;
pub(crate) mod fault;
mod lease;
mod literal;
mod mail;
mod options;
mod queue;
mod read;
mod records;
mod runs;
mod saved;
mod schema;
pub(crate) mod session;
mod sharing;
pub(crate) mod statements;
pub(crate) mod text;
#[cfg(feature = "tls")]
mod tls;
mod turns;
mod undo;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{
    Capabilities, CheckpointCache, Checkpointer, Claim, Commit, Conversations, Deletion, Delivered, DueQuery,
    DueThread, Inbox, InboxMessage, Lease, LeaseState, ListQuery, Listed, PostOutcome, Prune, Saved, SaverError,
    ThreadAdmin, ThreadInfo, check, check_thread,
};
use hier_checkpoint::runs::ChangeNotifier;
use tokio::sync::Notify;
use uuid::Uuid;

use delete::{Change, History};
use hier_checkpoint::backend::latest::Latest;
#[cfg(feature = "encryption")]
use hier_checkpoint::backend::retention::{Unread, UnreadRows};
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
pub use options::PostgresOptions;
use queue::{Group, Queue, Worker};
use records::{BatchOutcome, BatchOwner, store_batch};
#[cfg(feature = "encryption")]
use runs::reencrypt::Mark;
use session::{Session, Transaction, first, retrying};
use sharing::Sharing;
use turns::Turns;

/// Keeps checkpoints in a Postgres database. A clone shares the connections.
///
/// A commit is one statement, which also checks that the thread is still held. When the server cannot be reached, calls are
/// tried again for a while ([`PostgresOptions::retry_for`]); what is tried again is stored once. The statements that claim, commit,
/// change runs and read single rows are prepared, once a connection; a pooler may give each transaction another connection, and
/// once it does, nothing is prepared any more. A commit takes its place when it is called, even if its future is dropped.
///
/// Connections are encrypted if the URL says `sslmode=require` (or `verify-ca` or `verify-full`; feature `tls`), and then the
/// certificate of the server and its name are always checked: by the roots of this machine, or by those of a file, which
/// `sslrootcert=FILE` names. This is stricter than libpq's `require`, and without `sslmode` nothing is encrypted.
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
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    session: Session,
    vault: ValueCodec,
    queue: Arc<Queue>,
    turns: Arc<Turns>,
    /// Changes of the runs of a thread.
    changes: Arc<Turns>,
    /// Threads with their runs as they were last stored.
    known: runs::known::Known,
    /// Changes of threads' runs that are stored together.
    changing: Sharing<runs::item::Item>,
    /// Threads that are read together before their runs are changed.
    looking: Sharing<runs::see::Look>,
    /// Checkpoints that are read together.
    reading: Sharing<saved::SavedQuery>,
    /// Documents that several ask for.
    shared_reads: runs::shared_reads::SharedReads,
    latest: Latest,
    /// What other processes are to be told.
    news: runs::tell::News,
    /// Wakes those of this process that wait for a thread.
    released: Notify,
    /// Wakes those of this process that wait for runs and events.
    bell: Arc<ChangeNotifier>,
    /// Hears what other processes change, once somebody waits for it.
    ear: OnceLock<runs::listen::Ear>,
    /// Rows of runs that are passed over.
    unreadable: Unreadable,
    conversations: Conversations,
}

impl Postgres {
    /// Reaches the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. [`Postgres::options`] has more.
    ///
    /// [`SaverError::Unusable`] if it cannot be used, or was used by a newer version. A database without tables can be
    /// reached, but nothing can be done with it before [`Postgres::migrate`].
    pub async fn connect(url: &str) -> Result<Self, SaverError> {
        Self::options().connect(url).await
    }

    /// How a database is reached: schema, number of connections, compression, encryption.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Makes the tables, or brings those of an older version up to date. Does nothing if they are. Several processes may call
    /// it at once.
    pub async fn migrate(&self) -> Result<(), SaverError> {
        self.0.session.migrate().await
    }

    async fn start(url: &str, options: PostgresOptions) -> Result<Self, SaverError> {
        let session = Session::start(url, &options).await?;
        let (queue, turns) = (Arc::default(), Arc::default());
        Ok(Self(Arc::new(Inner {
            session,
            vault: options.vault.of_a_database(),
            queue,
            turns,
            changes: Arc::default(),
            known: runs::known::Known::default(),
            changing: Sharing::default(),
            looking: Sharing::default(),
            reading: Sharing::default(),
            shared_reads: runs::shared_reads::SharedReads::default(),
            latest: Latest::default(),
            news: runs::tell::News::default(),
            released: Notify::new(),
            bell: Arc::default(),
            ear: OnceLock::new(),
            unreadable: Unreadable::default(),
            conversations: Conversations::new(options.conversations),
        })))
    }

    /// Stores what waits for a thread, until nothing does.
    async fn work(self, mut worker: Worker) {
        while let Some(mut group) = worker.next() {
            let stored = self.store(worker.thread(), &mut group).await;
            group.answer(&stored);
        }
    }

    async fn store(&self, thread: &Arc<str>, group: &mut Group) -> Result<(), SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        let batch = group.take_batch(&self.0.vault, &self.0.latest, thread)?;
        let owner = BatchOwner::Held(thread, group.token);
        let stored = match &group.also {
            Some(also) => self.store_also(thread, group.token, &batch, also).await?,
            None => retrying!(session, client => store_batch(session, &client, &owner, &batch).await)?,
        };
        match stored {
            BatchOutcome::Stored => Ok(()),
            BatchOutcome::NotHeld => Err(SaverError::Superseded { thread: thread.to_string() }),
            BatchOutcome::Lacks(channel, version) => {
                Err(SaverError::Gone { thread: thread.to_string(), channel: channel.to_string(), version })
            }
        }
    }

    /// The error for callers whose work was dropped.
    fn stopped(&self) -> SaverError {
        let reason = "the runtime in which it was at work has ended, or something in it panicked: try again";
        SaverError::database(&*self.0.session.place, std::io::Error::other(reason))
    }

    /// Stores everything anew, encrypted with the key of [`PostgresOptions::encrypt`], and returns how many threads that were.
    /// Those that cannot be read are passed over, as rows of the runs, and named at the end. Can be done while the database is in use,
    /// and again.
    #[cfg(feature = "encryption")]
    pub async fn reencrypt(&self) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        let (mut done, mut unread) = (0, Unread::default());
        for thread in self.names().await? {
            let sealed: Result<u64, SaverError> = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let change = Change { session, client: transaction.client(), vault };
                let changed = change.reencrypt(&thread).await;
                transaction.end(changed).await
            });
            done += unread.pass(sealed)?;
        }
        let (mut rows, mut next) = (UnreadRows::default(), Some(Mark::start()));
        while let Some(mark) = next {
            let (unread, after) = retrying!(session, client => {
                let transaction = Transaction::begin(client).await?;
                let client = transaction.client();
                let tables = runs::tables::Tables { session, client, vault, unreadable: &self.0.unreadable };
                let sealed = tables.reencrypt(&mark).await;
                transaction.end(sealed).await
            })?;
            rows.add(unread);
            next = after;
        }
        rows.report(unread).map(|()| done)
    }

    /// Fails unless the tables are there.
    async fn ready(&self) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        if vault.lacks_database() {
            let sql = session.statements.with_schema("select id from {s}.identity");
            let rows = retrying!(session, client => session.query(&client, &sql, &[]).await)?;
            vault.set_database(first(&rows).map_err(|fault| fault.tell(&session.place))?);
        }
        Ok(())
    }

    async fn names(&self) -> Result<Vec<String>, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        retrying!(session, client => Change { session, client: &client, vault }.names().await)
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

    /// The lease is never released with a commit.
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        commit.records.iter().try_for_each(check)?;
        let also = commit.also.map(|also| *also);
        let (worker, stored) = self.0.queue.add(&lease.thread, lease.token, commit.records, also);
        if let Some(worker) = worker {
            // On the runtime of the caller: the one that the saver was made in may have ended.
            tokio::spawn(self.clone().work(worker));
        }
        stored.await.map_err(|_| self.stopped())?.map(|()| LeaseState::Held)
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
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.delete_thread(thread).await;
            transaction.end(changed).await
        });
        self.0.conversations.forget(thread);
        deleted?;
        self.0.released.notify_waiters();
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().with_inbox(self).with_admin(self).with_cache(self)
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
        check_thread(to)?;
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        if from == to {
            return Ok(());
        }
        let copied = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.copy_thread(from, to).await;
            transaction.end(changed).await
        });
        self.0.conversations.forget(to);
        copied?;
        self.0.released.notify_waiters();
        Ok(())
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        let plan = |history: &History| Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), runs);
        self.delete_of(self.names().await?, plan).await.map(|_| ())
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let threads = match prune.threads.clone() {
            Some(threads) => threads,
            None => self.names().await?,
        };
        let now = SystemTime::now();
        let plan = |history: &History| Deletion::by_prune(history.iter().map(|(name, it)| (name, it)), &prune, now);
        self.delete_of(threads, plan).await
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        let swept = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.sweep().await;
            transaction.end(changed).await
        })?;
        self.0.released.notify_waiters();
        let swept = swept + self.sweep_runs().await?;
        if swept > 0 {
            self.0.conversations.forget_all();
        }
        Ok(swept)
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
