//! A connection that is borrowed from the pool. Each statement has a time limit.
//!
//! If a call is dropped while its statement runs, the connection returns to the pool after the server has answered. A
//! connection that is in a transaction or has failed is closed instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage};

use super::fault::PostgresFault;

/// A parameter with its type. Without the type, the driver would need a round trip to look it up.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The maximum time for which a busy connection may wait for its answer: this fraction of the statement timeout, and at
/// least this duration. The connection counts as one of the pool's connections until then.
const SETTLES: (u32, Duration) = (30, Duration::from_secs(1));

pub(crate) struct PooledClient {
    object: Option<Object>,
    /// The number of statements without an answer.
    open: AtomicUsize,
    /// The number of open transactions, plus the number of statements that have made the connection unusable.
    bound: AtomicUsize,
    limit: Duration,
    settles: Duration,
    /// Limits the number of busy connections that wait for their answers.
    settling: Arc<Semaphore>,
}

impl PooledClient {
    pub(super) fn new(object: Object, limit: Duration, settling: Arc<Semaphore>) -> Self {
        let (open, bound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let settles = (limit / SETTLES.0).max(SETTLES.1);
        Self { object: Some(object), open, bound, limit, settles, settling }
    }

    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    pub(crate) async fn query(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        self.limited(async |object| object.query_typed(sql, with).await).await
    }

    pub(crate) async fn query_prepared(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        let types: Vec<Type> = with.iter().map(|(_, kind)| kind.clone()).collect();
        let values: Vec<_> = with.iter().map(|(value, _)| *value).collect();
        self.limited(async |object| {
            let statement = object.prepare_typed_cached(sql, &types).await?;
            object.query(&statement, &values).await
        })
        .await
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.bound.load(Ordering::Relaxed) > 0
    }

    pub(crate) async fn batch(&self, sql: &str) -> Result<(), PostgresFault> {
        self.limited(async |object| object.batch_execute(sql).await).await
    }

    /// Runs statements without parameters. The server returns their rows as texts.
    pub(crate) async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, PostgresFault> {
        self.limited(async |object| object.simple_query(sql).await).await
    }

    /// If a call is dropped here, `open` stays above zero.
    async fn limited<T>(
        &self,
        statement: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, PostgresFault> {
        let Some(object) = &self.object else {
            return Err(PostgresFault::NoConnection("the connection to the server was closed".to_owned()));
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(self.limit, statement(object)).await;
        let result = answer.map_err(|_| PostgresFault::Silent(self.limit)).and_then(|result| Ok(result?));
        if result.as_ref().is_err_and(PostgresFault::is_of_connection) {
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

impl Drop for PooledClient {
    fn drop(&mut self) {
        let (is_busy, is_bound) = (self.open.load(Ordering::Relaxed) > 0, self.bound.load(Ordering::Relaxed) > 0);
        if !is_busy && !is_bound {
            return;
        }
        let busy = BusyConnection(self.object.take());
        if !is_bound
            && let Ok(runtime) = Handle::try_current()
            && let Ok(permit) = self.settling.clone().try_acquire_owned()
        {
            runtime.spawn(busy.settle(self.settles, permit));
        }
    }
}

/// A connection with unread answers. Dropping it closes the connection.
struct BusyConnection(Option<Object>);

impl BusyConnection {
    /// Returns the connection to the pool after the server has answered all statements. The server answers in order.
    async fn settle(mut self, most: Duration, permit: OwnedSemaphorePermit) {
        let Some(object) = &self.0 else { return };
        if let Ok(Ok(_)) = timeout(most, object.simple_query("")).await {
            // First, because the next call may use the connection at once, and be dropped.
            drop(permit);
            self.0.take();
        }
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            // This also ends the task that reads from the connection.
            drop(Object::take(object));
        }
    }
}

/// A transaction. If it is dropped before its end, its connection is closed, and the server rolls it back.
pub(crate) struct Transaction(PooledClient);

impl Transaction {
    /// Begins a transaction that the server ends if it is idle for longer than the time limit. Otherwise, a lost
    /// connection would hold its locks until the server notices the loss.
    pub(crate) async fn begin(client: PooledClient) -> Result<Self, PostgresFault> {
        client.bind();
        let idle = i32::try_from(client.limit.as_millis()).unwrap_or(i32::MAX).max(1);
        client.batch(&format!("begin; set local idle_in_transaction_session_timeout = {idle}")).await?;
        Ok(Self(client))
    }

    pub(crate) fn client(&self) -> &PooledClient {
        &self.0
    }

    pub(crate) async fn undo(self) -> Result<(), PostgresFault> {
        self.0.batch("rollback").await?;
        self.0.free();
        Ok(())
    }

    /// Commits if the result is `Ok`, and rolls back otherwise.
    pub(crate) async fn end<T>(self, result: Result<T, PostgresFault>) -> Result<T, PostgresFault> {
        let ended = self.0.batch(if result.is_ok() { "commit" } else { "rollback" }).await;
        if ended.is_ok() {
            self.0.free();
        }
        result.and_then(|value| ended.map(|()| value))
    }
}
