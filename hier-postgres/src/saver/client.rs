//! A connection that is borrowed from the pool. Each statement has a time limit.
//!
//! A connection that is still busy, because its call was dropped, returns to the pool once the server has answered. One that is in a
//! transaction, or has failed, is closed instead.

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

/// A parameter with its type, which spares a round trip to look it up.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Longest time that a busy connection may take to become free: a fraction of the statement timeout, and its minimum. Until then it counts
/// as one of the pool's connections.
const SETTLES: (u32, Duration) = (30, Duration::from_secs(1));

pub(crate) struct PooledClient {
    object: Option<Object>,
    /// Number of statements without an answer.
    open: AtomicUsize,
    /// Number of open transactions, and of statements that have made the connection useless.
    bound: AtomicUsize,
    limit: Duration,
    settles: Duration,
    /// Bounds the number of busy connections that are waited for.
    settling: Arc<Semaphore>,
}

impl PooledClient {
    pub(super) fn new(object: Object, limit: Duration, settling: Arc<Semaphore>) -> Self {
        let (open, bound) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let settles = (limit / SETTLES.0).max(SETTLES.1);
        Self { object: Some(object), open, bound, limit, settles, settling }
    }

    /// Lowers the time limit of each statement.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// Runs a statement in one round trip.
    pub(crate) async fn query(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        self.limited(async |object| object.query_typed(sql, with).await).await
    }

    /// Runs a statement that this connection prepares at its first use.
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

    /// Runs statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), PostgresFault> {
        self.limited(async |object| object.batch_execute(sql).await).await
    }

    /// Runs statements without parameters. Their rows consist of texts.
    pub(crate) async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, PostgresFault> {
        self.limited(async |object| object.simple_query(sql).await).await
    }

    /// A call that is dropped here, or has no answer in time, leaves `open` above zero.
    async fn limited<T>(
        &self,
        statement: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, PostgresFault> {
        let Some(object) = &self.object else {
            return Err(PostgresFault::NoConnection("the connection was closed".to_owned()));
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

/// A connection with unread answers. It is closed when this is dropped.
struct BusyConnection(Option<Object>);

impl BusyConnection {
    /// Returns the connection to the pool once the server has answered everything: it answers in order.
    async fn settle(mut self, most: Duration, _permit: OwnedSemaphorePermit) {
        let Some(object) = &self.0 else { return };
        if let Ok(Ok(_)) = timeout(most, object.simple_query("")).await {
            self.0.take();
        }
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            // Also ends the task that reads from it.
            drop(Object::take(object));
        }
    }
}

/// A transaction. If it is dropped before its end, its connection is closed, which rolls it back.
pub(crate) struct Transaction(PooledClient);

impl Transaction {
    /// The server also ends an idle transaction after the time limit: otherwise a lost connection would hold its locks until the server
    /// notices.
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
