//! The saver in a SQLite file.

mod contention;
mod delete;
pub(crate) mod fault;
mod inbox;
mod job;
mod lease;
mod log;
pub(crate) mod open_file;
mod options;
mod read;
mod readers;
mod runs;
pub(crate) mod schema;
mod store;
mod sweep;
mod sync;
mod undo;
mod write_queue;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{
    Capabilities, CheckpointCache, Checkpointer, Claim, Commit, Conversations, Deletion, Lease, LeaseState, ListQuery,
    Listed, Prune, PrunePlan, Saved, SaverError, SideEffects, ThreadAdmin, ThreadInfo, WhenRunning, WriteRecord, check,
    check_new_thread, check_thread,
};
use hier_runs::ChangeNotifier;
use rusqlite::Connection;
use tokio::sync::Notify;
use uuid::Uuid;

use fault::Fault;
use hier_checkpoint::backend::latest::Latest;
use hier_checkpoint::backend::lease::{Claimed, wait_for};
use hier_checkpoint::backend::retention::Unread;
#[cfg(feature = "encryption")]
use hier_checkpoint::backend::retention::UnreadRows;
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
use log::WriteAheadLog;
pub use options::{SqliteOptions, Survives};
use readers::Readers;
#[cfg(feature = "encryption")]
use runs::reencrypt::ReencryptCursor;
use writer::{JobClass, SqliteWriter, WriterConfig};

/// The size up to which a caller may read or write data itself and need not leave it to a thread.
const SHORT_BYTES: usize = 64 << 10;
/// The interval at which a waiting claim checks whether another process has released the thread.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A saver and run store in a SQLite file. Clones share the connections. Needs a tokio runtime.
///
/// * Several processes on one machine may use the file.
/// * If the process is killed, its commits are not lost. For power cuts, see [`Survives`].
/// * Concurrent commits share a transaction. The calling task executes a small commit itself, which blocks the thread
///   of this task for some tens of microseconds. A dedicated thread executes all other commits.
/// * Commits are cancel safe: the first poll of the future queues the commit. The commit then completes even if the
///   future is dropped.
/// * Dropping the last clone closes the file, and removes the files `-wal` and `-shm` next to it unless another process
///   uses them. This blocks the thread until all commits are in the file. To avoid this, call [`close`](Self::close).
#[derive(Clone)]
pub struct Sqlite(Arc<SqliteInner>);

struct SqliteInner {
    /// The name of the file in errors.
    place: String,
    vault: ValueCodec,
    /// `None` for a database in memory, which only the writer's connection can access. This field is dropped before the
    /// writer, because closing the last connection writes the log back.
    readers: Option<Readers>,
    writer: SqliteWriter,
    /// Wakes tasks of this process that wait for a thread.
    released: Notify,
    /// Wakes tasks of this process that wait for changes of runs and for events.
    bell: ChangeNotifier,
    unreadable: Arc<Unreadable>,
    recovery: runs::Recovery,
    latest: Latest,
    conversations: Conversations,
}

impl Sqlite {
    /// Opens the file, and creates it if it does not exist. To set options, use [`Sqlite::options`].
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] if the file is not a database, belongs to another program or was written by
    /// a newer version of hier.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, SaverError> {
        Self::options().open(path).await
    }

    /// Opens a database in memory. The database is discarded when the last clone of the saver is dropped.
    pub async fn in_memory() -> Result<Self, SaverError> {
        Self::options().in_memory().await
    }

    /// Returns the options for opening a file, such as durability, compression and encryption.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    async fn start(path: Option<PathBuf>, options: SqliteOptions) -> Result<Self, SaverError> {
        let place =
            path.as_ref().map_or_else(|| "a database in memory".to_owned(), |path| format!("`{}`", path.display()));
        let (vault, busy_timeout) = (options.vault.of_a_database(), options.busy_timeout);
        let conversations = Conversations::new(options.conversations);
        let config = WriterConfig { busy_timeout, waits_for_disk: options.survives == Survives::PowerLoss };
        let (log, own_path) = (WriteAheadLog::new(path.as_deref()), path.clone());
        let writer =
            SqliteWriter::start(place.clone(), config, log, move || schema::open_writer(own_path.as_deref(), &options))
                .await?;
        // A job would wait for a process that writes.
        let identity = match writer.read_now(schema::identity) {
            Some(Ok(identity)) => identity,
            _ => writer.submit(JobClass::Short, schema::identity).await?,
        };
        vault.set_database(identity);
        let readers = path.map(|path| Readers::new(path, busy_timeout));
        let (released, bell, unreadable, recovery) =
            (Notify::new(), ChangeNotifier::default(), Arc::default(), runs::Recovery::default());
        let latest = Latest::default();
        let inner =
            SqliteInner { place, vault, readers, writer, released, bell, unreadable, recovery, latest, conversations };
        Ok(Self(Arc::new(inner)))
    }

    /// Waits until all commits are complete. If this is the last clone, also waits until the file is closed.
    pub async fn close(self) -> Result<(), SaverError> {
        self.0.writer.submit(JobClass::Short, |_| Ok(())).await?;
        if let Some(inner) = Arc::into_inner(self.0) {
            drop(inner.readers);
            // Closing may write the log back into the file.
            let closed = tokio::task::spawn_blocking(move || drop(inner.writer)).await;
            closed.map_err(|error| SaverError::database(inner.place, error))?;
        }
        Ok(())
    }

    /// Reads and checks the whole file.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Unusable`] or [`SaverError::Damaged`] if a part is damaged.
    pub async fn check(&self) -> Result<(), SaverError> {
        let vault = self.0.vault.clone();
        match self.read(move |connection| delete::check(connection, &vault)).await? {
            None => Ok(()),
            Some(report) => {
                Err(SaverError::Unusable { place: self.0.place.clone(), reason: format!("it is damaged: {report}") })
            }
        }
    }

    /// Claims a thread. If the call is dropped, the lease is released before any other job runs.
    async fn claim(&self, thread: &str, claim: &Claim) -> Result<Lease, SaverError> {
        let (name, claim, undo) = (thread.to_owned(), claim.clone(), self.0.writer.front());
        let work = move |connection: &Connection| {
            let release = move |lease: Lease| undo.submit(move |connection| lease::release(connection, &lease));
            Ok(lease::claim(connection, &name, &claim)?.map(|lease| Claimed::new(lease, release)))
        };
        let claimed = self.0.writer.submit(JobClass::Last, work).await??;
        claimed.take().ok_or_else(|| SaverError::Invalid(format!("the caller dropped the claim of thread `{thread}`")))
    }

    /// Claims a thread. Checks it without a write transaction first, so that waiting callers do not delay writers.
    async fn look_and_claim(&self, thread: &str, claim: &Claim) -> Result<Lease, SaverError> {
        let own = thread.to_owned();
        match self.read(move |connection| lease::holder(connection, &own)).await? {
            Some(holder) => Err(SaverError::Busy { thread: thread.to_owned(), holder }),
            None => self.claim(thread, claim).await,
        }
    }

    async fn names(&self, within: Option<Vec<String>>) -> Result<Vec<String>, SaverError> {
        self.read(move |connection| delete::names(connection, within.as_deref())).await
    }

    /// Deletes the parts of these threads that the plan selects. Skips threads that cannot be read and reports them at
    /// the end. Reads each thread first, because the plan selects nothing in most threads.
    async fn delete_of(
        &self,
        threads: Vec<String>,
        plan: impl Fn(&str, &delete::History) -> Deletion + Clone + Send + 'static,
    ) -> Result<u64, SaverError> {
        let (mut deleted, mut unread) = (0, Unread::default());
        for thread in threads {
            let (vault, first, name) = (self.0.vault.clone(), plan.clone(), thread.clone());
            let looks = self.read(move |connection| {
                let history = delete::history(connection, &vault, &name)?;
                Ok(!first(&name, &history).is_empty())
            });
            if unread.pass(looks.await)? {
                let (plan, name) = (plan.clone(), thread.clone());
                deleted += unread.pass(self.delete_some(thread, move |history| plan(&name, history)).await)?;
            }
        }
        unread.report().map(|()| deleted)
    }

    /// Encrypts all data of the saver and run store with the key of [`SqliteOptions::encrypt`], and returns the number
    /// of stored threads. Does not encrypt the items of a [`SqliteStore`](crate::SqliteStore).
    ///
    /// Other programs can use the file in the meantime. If the call fails or is dropped, call it again.
    ///
    /// # Errors
    ///
    /// If the saver cannot read some threads or rows, it skips them and encrypts the others. The call then fails with
    /// an error that names the skipped threads and rows.
    #[cfg(feature = "encryption")]
    pub async fn reencrypt(&self) -> Result<u64, SaverError> {
        let (mut done, mut unread) = (0, Unread::default());
        for thread in self.names(None).await? {
            let vault = self.0.vault.clone();
            let work = move |connection: &Connection| delete::reencrypt(connection, &vault, &thread).map(|()| 1);
            done += unread.pass(self.0.writer.submit(JobClass::Alone, work).await)?;
        }
        let (mut rows, mut next) = (UnreadRows::default(), Some(ReencryptCursor::start()));
        while let Some(mark) = next {
            let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
            let work = move |connection: &Connection| runs::reencrypt::reencrypt(connection, &vault, &unreadable, mark);
            let (unread, after) = self.0.writer.submit(JobClass::Alone, work).await?;
            rows.add(unread);
            next = after;
        }
        rows.report(unread).map(|()| done)
    }

    /// Deletes the selected parts of a thread in a transaction of its own, so that writers wait only briefly.
    async fn delete_some(
        &self,
        thread: String,
        plan: impl FnOnce(&delete::History) -> Deletion + Send + 'static,
    ) -> Result<u64, SaverError> {
        let (vault, name) = (self.0.vault.clone(), thread.clone());
        let work = move |connection: &Connection| delete::delete_some(connection, &vault, &name, plan);
        let deleted = self.0.writer.submit(JobClass::Alone, work).await;
        self.0.conversations.forget(&thread);
        self.0.released.notify_waiters();
        deleted
    }

    /// Stores records and runs `then` in the same transaction.
    async fn commit_and(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        also: SideEffects,
        then: impl FnOnce(&Connection, &Lease) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), SaverError> {
        records.iter().try_for_each(check)?;
        let batch = Batch::of(&self.0.vault, &self.0.latest, &lease.thread, records)?;
        let work = store::job_class(&batch);
        let lease = lease.clone();
        let commit = move |connection: &Connection| {
            store::commit(connection, &lease.thread, lease.token, &batch, &also)?;
            then(connection, &lease)
        };
        self.0.writer.submit(work, commit).await
    }

    /// Wakes tasks that wait for the thread or for runs.
    fn notify_released(&self) {
        self.0.released.notify_waiters();
        self.0.recovery.is_soon();
        self.0.bell.notify_runs();
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sqlite({})", self.0.place)
    }
}

#[async_trait]
impl Checkpointer for Sqlite {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        check_thread(thread)?;
        match claim.when_running {
            WhenRunning::TakeOver | WhenRunning::Reject => self.claim(thread, &claim).await,
            WhenRunning::Wait(at_most) => {
                wait_for(&self.0.released, LOOK_AGAIN, at_most, || self.look_and_claim(thread, &claim)).await
            }
        }
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        let lease = lease.clone();
        self.0.writer.submit(JobClass::Short, move |connection| lease::renew(connection, &lease)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        let lease = lease.clone();
        let releasing = self.0.writer.submit(JobClass::Short, move |connection| lease::release(connection, &lease));
        let released = releasing.await;
        self.notify_released();
        released
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let also = commit.also.map(|also| *also).unwrap_or_default();
        if !commit.release {
            self.commit_and(lease, commit.records, also, |_, _| Ok(())).await?;
            return Ok(LeaseState::Held);
        }
        let released = self.commit_and(lease, commit.records, also, lease::release).await;
        self.notify_released();
        released.map(|()| LeaseState::Released)
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.get_changed(thread, namespace, id, &[]).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let vault = self.0.vault.clone();
        self.read(move |connection| read::list(connection, &vault, &query)).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        let name = thread.to_owned();
        let deleted =
            self.0.writer.submit(JobClass::Alone, move |connection| delete::delete_thread(connection, &name)).await;
        self.0.conversations.forget(thread);
        self.0.released.notify_waiters();
        deleted
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
impl ThreadAdmin for Sqlite {
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        let vault = self.0.vault.clone();
        self.read(move |connection| read::threads(connection, &vault, limit)).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        check_new_thread(to)?;
        if from == to {
            return Ok(());
        }
        let (vault, from, target) = (self.0.vault.clone(), from.to_owned(), to.to_owned());
        let work = move |connection: &Connection| delete::copy_thread(connection, &vault, &from, &target);
        let copied = self.0.writer.submit(JobClass::Alone, work).await;
        self.0.conversations.forget(to);
        self.0.released.notify_waiters();
        copied
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        let runs: Arc<[String]> = runs.into();
        let plan = move |_: &str, history: &delete::History| {
            Deletion::by_runs(history.iter().map(|(namespace, it)| (namespace, it)), &runs)
        };
        self.delete_of(self.names(None).await?, plan).await.map(|_| ())
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let stored = self.names(prune.threads.clone()).await?;
        let plan = Arc::new(PrunePlan::new(prune, stored));
        let threads = plan.threads().to_vec();
        let plan = move |thread: &str, history: &delete::History| {
            plan.deletion(thread, history.iter().map(|(namespace, it)| (namespace, it)))
        };
        self.delete_of(threads, plan).await
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        self.sweep_threads().await
    }
}

#[async_trait]
impl CheckpointCache for Sqlite {
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        let (vault, name, place) = (self.0.vault.clone(), thread.to_owned(), namespace.to_owned());
        let known = known.to_vec();
        let find = move |connection: &Connection, bytes| {
            let space = read::NamespaceReader::find(connection, &vault, &name, &place)?;
            space.map_or(Ok(None), |space| space.within(bytes).saved(id, &known))
        };
        let first = find.clone();
        let short = move |connection: &Connection| {
            let _state = connection.unchecked_transaction()?;
            first(connection, SHORT_BYTES)
        };
        match self.read_short(short) {
            Some(found) => found,
            None => self.read(move |connection| find(connection, usize::MAX)).await,
        }
    }

    fn conversations(&self) -> Option<&Conversations> {
        Some(&self.0.conversations)
    }
}
