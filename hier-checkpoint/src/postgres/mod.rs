//! The saver in Postgres.

mod address;
mod delete;
pub(crate) mod fault;
mod options;
mod queue;
mod read;
pub(crate) mod session;
pub(crate) mod statements;
mod store;
pub(crate) mod text;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Checkpointer, Claim, Deletion, Lease, ListQuery, Listed, Prune, Record, Saved, SaverError, ThreadInfo, WhenRunning,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::rows::Batch;
use crate::vault::Vault;
use delete::{Change, History};
use fault::Fault;
pub use options::PostgresOptions;
use queue::{Group, Queue};
use session::{Session, Transaction, first, retrying};
use store::Owner;
use text::escape;

/// How often to look whether another process has released a thread.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Keeps checkpoints in a Postgres database. A clone shares the connections.
///
/// A commit is one statement, which also checks that the thread is still held. When the server cannot be reached, calls are
/// tried again for a while ([`PostgresOptions::retry_for`]); what is tried again is stored once. Nothing is left behind in a
/// connection, so that a pooler may give each transaction another one. A commit takes its place when it is called, even if
/// its future is dropped.
///
/// Connections are encrypted if the URL says `sslmode=require` (or `verify-ca` or `verify-full`; feature `tls`), and then the
/// certificate of the server and its name are always checked: by the roots of this machine, or by those of a file, which
/// `sslrootcert=FILE` names. This is stricter than libpq's `require`, and without `sslmode` nothing is encrypted.
///
/// ```no_run
/// use hier_checkpoint::Postgres;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_core::checkpoint::SaverError> {
/// let saver = Postgres::connect("postgres://desk:secret@localhost/desk").await?;
/// saver.migrate().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    session: Session,
    vault: Vault,
    queue: Queue,
    /// Wakes those of this process that wait for a thread.
    released: Notify,
    runtime: Handle,
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
        let (queue, released) = (Queue::default(), Notify::new());
        Ok(Self(Arc::new(Inner { session, vault: options.vault, queue, released, runtime: Handle::current() })))
    }

    async fn try_claim(&self, thread: &str, claim: &Claim) -> Result<Lease, SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        let (name, holder) = (escape(thread), text::claimed_by(&claim.holder));
        let (lasts, lives) = (millis(claim.lasts), claim.time_to_live.map(millis));
        let take_over = claim.when_running == WhenRunning::TakeOver;
        let with = [
            (&name as _, Type::TEXT),
            (&holder as _, Type::TEXT),
            (&lasts as _, Type::INT8),
            (&lives as _, Type::INT8),
            (&take_over as _, Type::BOOL),
        ];
        // Whoever held it may have released it between the two statements.
        loop {
            let claimed = retrying!(session, client => session.query(&client, &session.statements.claim, &with).await)?;
            if !claimed.is_empty() {
                let token: i64 = first(&claimed).map_err(|fault| fault.tell(&session.place))?;
                let token = u64::try_from(token).unwrap_or_default();
                return Ok(Lease { thread: thread.into(), token, lasts: claim.lasts });
            }
            if let Some(holder) = self.holder(thread).await? {
                return Err(SaverError::Busy { thread: thread.to_owned(), holder });
            }
        }
    }

    async fn holder(&self, thread: &str) -> Result<Option<String>, SaverError> {
        let session = &self.0.session;
        let name = escape(thread);
        let with = [(&name as _, Type::TEXT)];
        let rows = retrying!(session, client => session.query(&client, &session.statements.holder, &with).await)?;
        let holder = rows.first().map(|row| row.try_get::<_, &str>(0)).transpose();
        let holder = holder.map_err(|error| Fault::from(error).tell(&session.place))?;
        Ok(holder.map(text::holder))
    }

    async fn wait_and_claim(&self, thread: &str, claim: &Claim, at_most: Duration) -> Result<Lease, SaverError> {
        let end = Instant::now().checked_add(at_most);
        loop {
            let released = self.0.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            let busy = match self.try_claim(thread, claim).await {
                Err(busy @ SaverError::Busy { .. }) => busy,
                result => return result,
            };
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(busy);
            }
            // Another process tells nobody.
            let again = Instant::now() + LOOK_AGAIN;
            let _ = tokio::time::timeout_at(end.map_or(again, |end| end.min(again)), released).await;
        }
    }

    /// Stores what waits for a thread, until nothing does.
    async fn work(self, thread: Arc<str>) {
        while let Some(group) = self.0.queue.next(&thread) {
            let stored = self.store(&thread, &group).await;
            group.answer(&stored);
        }
    }

    async fn store(&self, thread: &Arc<str>, group: &Group) -> Result<(), SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        let owner = Owner::Held(thread, group.token);
        let held = retrying!(session, client => store::store(session, &client, &owner, &group.batch).await)?;
        if held { Ok(()) } else { Err(SaverError::Superseded { thread: thread.to_string() }) }
    }

    /// Deletes what the plan says of a thread, and returns how many checkpoints that were.
    async fn delete_some(
        &self,
        thread: &str,
        plan: impl Fn(&History) -> Deletion + Sync + Send,
    ) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        let deleted = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.delete_some(thread, &plan).await;
            transaction.end(changed).await
        })?;
        self.0.released.notify_waiters();
        Ok(deleted)
    }

    async fn names(&self) -> Result<Vec<String>, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        retrying!(session, client => Change { session, client: &client, vault }.names().await)
    }
}

fn millis(duration: Duration) -> i64 {
    // A hundred years are for ever, and a time that Postgres can count.
    const MOST: i64 = 100 * 365 * 24 * 60 * 60 * 1_000;
    i64::try_from(duration.as_millis()).unwrap_or(MOST).min(MOST)
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Postgres({})", self.0.session.place)
    }
}

#[async_trait]
impl Checkpointer for Postgres {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        match claim.when_running {
            WhenRunning::Wait(at_most) => self.wait_and_claim(thread, &claim, at_most).await,
            WhenRunning::TakeOver | WhenRunning::Reject => self.try_claim(thread, &claim).await,
        }
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
        let lasts = millis(lease.lasts);
        let with = [(&name as _, Type::TEXT), (&token as _, Type::INT8), (&lasts as _, Type::INT8)];
        let rows = retrying!(session, client => session.query(&client, &session.statements.renew, &with).await)?;
        let superseded = || SaverError::Superseded { thread: lease.thread.to_string() };
        rows.first().map(|_| ()).ok_or_else(superseded)
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
        let with = [(&name as _, Type::TEXT), (&token as _, Type::INT8)];
        retrying!(session, client => session.query(&client, &session.statements.release, &with).await)?;
        self.0.released.notify_waiters();
        Ok(())
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        let batch = Batch::of(&self.0.vault, &lease.thread, records)?;
        let (idle, stored) = self.0.queue.add(&lease.thread, lease.token, batch);
        if idle {
            self.0.runtime.spawn(self.clone().work(lease.thread.clone()));
        }
        let stopped = |_| SaverError::Unusable {
            place: self.0.session.place.clone(),
            reason: "the runtime that wrote to it has stopped".to_owned(),
        };
        stored.await.map_err(stopped)?
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        retrying!(session, client => read::Space { session, client: &client, vault, thread, namespace }.saved(id).await)
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        retrying!(session, client => read::list(session, &client, &self.0.vault, &query).await)
    }

    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        let session = &self.0.session;
        session.ready().await?;
        retrying!(session, client => read::threads(session, &client, &self.0.vault, limit).await)
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.delete_thread(thread).await;
            transaction.end(changed).await
        })?;
        self.0.released.notify_waiters();
        Ok(())
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        if from == to {
            return Ok(());
        }
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.copy_thread(from, to).await;
            transaction.end(changed).await
        })?;
        self.0.released.notify_waiters();
        Ok(())
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        for thread in self.names().await? {
            let all = ListQuery { namespace: None, ..ListQuery::thread(&*thread) };
            let history: History = self.list(all).await?.into_iter().map(|it| (it.namespace, it.checkpoint)).collect();
            let plan = |history: &History| Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), runs);
            // Most threads have none of them, and need not be held.
            if !plan(&history).is_empty() {
                self.delete_some(&thread, plan).await?;
            }
        }
        Ok(())
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let all = self.names().await?;
        let threads = prune.threads.clone().unwrap_or(all);
        let now = SystemTime::now();
        let plan = |history: &History| Deletion::by_prune(history.iter().map(|(name, it)| (name, it)), &prune, now);
        let mut pruned = 0;
        for thread in threads {
            pruned += self.delete_some(&thread, plan).await?;
        }
        Ok(pruned)
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        session.ready().await?;
        let swept = retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let change = Change { session, client: transaction.client(), vault };
            let changed = change.sweep().await;
            transaction.end(changed).await
        })?;
        self.0.released.notify_waiters();
        Ok(swept)
    }
}
