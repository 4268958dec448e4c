//! A connection that is borrowed from the pool. Each statement has a time limit. A connection that is still busy, as the call was
//! dropped, is given back once it is not; one that is in a transaction, or has failed, is closed instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage};

use super::fault::Fault;

/// A parameter with its type, so that the server need not be asked for it.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Longest time in which a connection that was dropped while busy becomes free: this fraction of the statement timeout, and at least a
/// second. Until then it counts as one of the pool's connections.
const SETTLES: (u32, Duration) = (30, Duration::from_secs(1));

/// A borrowed connection.
pub(crate) struct Client {
    /// `Some` until it is dropped.
    object: Option<Object>,
    /// Statements without an answer.
    open: AtomicUsize,
    /// Transactions without an end, and statements after which it is of no use.
    bound: AtomicUsize,
    limit: Duration,
    settles: Duration,
    /// As many connections may be waited for at once.
    settling: Arc<Semaphore>,
}

impl Client {
    pub(super) fn new(object: Object, limit: Duration, settling: Arc<Semaphore>) -> Self {
        let (open, bound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let settles = (limit / SETTLES.0).max(SETTLES.1);
        Self { object: Some(object), open, bound, limit, settles, settling }
    }

    /// The same connection with less time for each statement.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// Runs a statement in one round trip.
    pub(crate) async fn query(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.limited(async |object| object.query_typed(sql, with).await).await
    }

    /// The same, with a statement that this connection has prepared, which it does when it is first asked to.
    pub(crate) async fn query_prepared(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let types: Vec<Type> = with.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<_> = with.iter().map(|(value, _)| *value).collect();
        self.limited(async |object| {
            let statement = object.prepare_typed_cached(sql, &types).await?;
            object.query(&statement, &values).await
        })
        .await
    }

    /// Whether a transaction has begun on it.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.bound.load(Ordering::Relaxed) > 0
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.limited(async |object| object.batch_execute(sql).await).await
    }

    /// Runs statements without parameters that answer in texts.
    pub(crate) async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Fault> {
        self.limited(async |object| object.simple_query(sql).await).await
    }

    /// A call that is dropped here, or has no answer in time, leaves the connection open for an answer that nobody reads.
    async fn limited<T>(
        &self,
        statement: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Fault> {
        let Some(object) = &self.object else { return Err(Fault::NoConnection("it was closed".to_owned())) };
        self.open.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.limit, statement(object)).await;
        let result = answer.map_err(|_| Fault::Silent(self.limit)).and_then(|result| Ok(result?));
        if result.as_ref().is_err_and(Fault::is_of_connection) {
            self.bind();
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        result
    }

    fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    fn free(&self) {
        self.bound.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let (is_busy, is_bound) = (self.open.load(Ordering::Relaxed) > 0, self.bound.load(Ordering::Relaxed) > 0);
        if !is_busy && !is_bound {
            return;
        }
        let busy = Busy(self.object.take());
        if !is_bound
            && let Ok(runtime) = Handle::try_current()
            && let Ok(permit) = self.settling.clone().try_acquire_owned()
        {
            runtime.spawn(busy.settle(self.settles, permit));
        }
    }
}

/// A connection whose answers nobody waits for. It is closed when this is dropped.
struct Busy(Option<Object>);

impl Busy {
    /// Gives it back once the server has answered everything: what it is asked last it answers last.
    async fn settle(mut self, most: Duration, _permit: OwnedSemaphorePermit) {
        let Some(object) = &self.0 else { return };
        if let Ok(Ok(_)) = timeout(most, object.simple_query("")).await {
            self.0.take();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            // Ends the task that reads from it, too.
            drop(Object::take(object));
        }
    }
}

/// A transaction. If the call is dropped before its end, the connection is closed, and with it the transaction.
pub(crate) struct Transaction(Client);

impl Transaction {
    /// The server ends it, too, if nothing is heard of it for so long: else a connection that was lost on the way would hold
    /// its locks until the server notices.
    pub(crate) async fn begin(client: Client) -> Result<Self, Fault> {
        client.bind();
        let idle = i32::try_from(client.limit.as_millis()).unwrap_or(i32::MAX).max(1);
        client.batch(&format!("begin; set local idle_in_transaction_session_timeout = {idle}")).await?;
        Ok(Self(client))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0
    }

    /// Ends it as if it had not been.
    pub(crate) async fn undo(self) -> Result<(), Fault> {
        self.0.batch("rollback").await?;
        self.0.free();
        Ok(())
    }

    /// Commits if all went well.
    pub(crate) async fn end<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        let ended = self.0.batch(if result.is_ok() { "commit" } else { "rollback" }).await;
        if ended.is_ok() {
            self.0.free();
        }
        result.and_then(|value| ended.map(|()| value))
    }
}
