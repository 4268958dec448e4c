//! A store that can be watched and blocked in the server.

use std::time::Duration;

use hier_postgres::Postgres;

use super::server::{Road, blocked, connected, server};

/// A store behind a proxy, and direct connections to its server.
pub(crate) struct Proxied {
    pub(crate) store: Postgres,
    pub(crate) road: Road,
    pub(crate) url: String,
    pub(crate) schema: &'static str,
    sql: tokio_postgres::Client,
    /// In a transaction, the server always shows the activity at the time of the first query.
    pub(crate) watch: tokio_postgres::Client,
}

impl Proxied {
    pub(crate) async fn open(schema: &'static str) -> Self {
        let url = server();
        let road = Road::to(&url).await;
        let store = Postgres::options().schema(schema).connect(&road.url).await.expect("the server");
        store.migrate().await.expect("tables");
        let (sql, watch) = (connected(&url).await, connected(&url).await);
        Self { store, road, url, schema, sql, watch }
    }

    /// Executes SQL on the direct connection. `{s}` stands for the schema.
    pub(crate) async fn run(&self, sql: &str) {
        self.sql.batch_execute(&sql.replace("{s}", self.schema)).await.expect("the server");
    }

    /// Returns the number of statements that wait for a lock in the server.
    pub(crate) async fn blocked(&self) -> i64 {
        blocked(&self.watch, self.schema).await
    }

    pub(crate) async fn until_blocked(&self, count: i64) {
        while self.blocked().await < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
