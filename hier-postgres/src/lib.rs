//! Durable threads in Postgres: a saver, a run store, and a store for memory that all threads share, in one database.
//! Programs on several machines can use the same database.
//!
//! | feature | adds |
//! |---|---|
//! | `tls` | encrypted connections (`sslmode=require`) |
//! | `compression` | `compress()` in the options: LZ4, if it saves space |
//! | `encryption` | `encrypt(key)` in the options: XChaCha20-Poly1305, `Key` |

mod saver;
mod store;

#[cfg(feature = "encryption")]
pub use hier_checkpoint::Key;
pub use saver::{Postgres, PostgresOptions};
pub use store::PostgresStore;
