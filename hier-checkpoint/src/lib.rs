//! Savers for [`hier_core`]: durable threads in SQLite and in Postgres.
//!
//! | feature | what it brings |
//! |---|---|
//! | `sqlite` (default) | [`Sqlite`]: one file, no server; many threads, several processes |
//! | `postgres` | [`Postgres`]: one database for many machines |
//! | `tls` | encrypted connections to Postgres, if the URL says so; brings `postgres` |
//! | `compression` | `compress()` in the options of both: LZ4, where it pays |
//! | `encryption` | `encrypt(key)` in the options of both: XChaCha20-Poly1305, [`Key`] |
//!
//! ```
//! use hier_checkpoint::Sqlite;
//! use hier_core::checkpoint::{Checkpointer, ListQuery};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hier_core::checkpoint::SaverError> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("desk.db");
//! let saver = Sqlite::open(path).await?;
//! assert!(saver.list(ListQuery::thread("case 17")).await?.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Both keep the contract of [`hier_core::checkpoint`], whose test suite they are run against. Beside them, in the same file
//! or database if you like, are the stores, for memory across threads: [`SqliteStore`] and [`PostgresStore`].

#[cfg(all(feature = "encryption", any(feature = "sqlite", feature = "postgres")))]
mod cipher;
#[cfg(all(feature = "compression", any(feature = "sqlite", feature = "postgres")))]
mod compression;
#[cfg(all(feature = "encryption", any(feature = "sqlite", feature = "postgres")))]
mod key;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod latest;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod lease;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod place;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod rows;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod run_rows;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod unreadable;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod vault;

#[cfg(all(feature = "encryption", any(feature = "sqlite", feature = "postgres")))]
pub use key::Key;
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresOptions};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteOptions, Survives};
#[cfg(feature = "postgres")]
pub use store::PostgresStore;
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
