//! The stores: memory across threads, in SQLite and in Postgres.
//!
//! What decides about an item (filters, order, meaning) is in [`hier_core::store::plan`], and the same for all. Here are only
//! rows. A namespace is a row of its own, whose key grows, so that namespaces come in the order in which they were made; it
//! goes with its last item.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_write;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_rows;

#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
