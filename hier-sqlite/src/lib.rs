//! Durable threads in SQLite: a saver, a run store, and a store for memory that all threads share, in one file.
//!
//! | feature | adds |
//! |---|---|
//! | `compression` | `compress()` in the options: LZ4, if it saves space |
//! | `encryption` | `encrypt(key)` in the options: XChaCha20-Poly1305, `Key` |
//!
//! ```
//! use hier_checkpoint::checkpoint::{Checkpointer, ListQuery};
//! use hier_sqlite::Sqlite;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hier_checkpoint::checkpoint::SaverError> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("desk.db");
//! let saver = Sqlite::open(path).await?;
//! assert!(saver.list(ListQuery::thread("case 17")).await?.is_empty());
//! # Ok(())
//! # }
//! ```

mod saver;
mod store;

#[cfg(feature = "encryption")]
pub use hier_checkpoint::Key;
pub use saver::{Sqlite, SqliteOptions, Survives};
pub use store::SqliteStore;
