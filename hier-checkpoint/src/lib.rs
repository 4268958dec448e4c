//! The contracts of savers and stores, with implementations in memory.
//!
//! The module [`checkpoint`] defines savers, which store the values of [channels](channel) and the progress of threads.
//! The module [`store`] defines stores, which keep values that all threads share. The module [`reducer`] has the
//! reducers that merge writes, and [`message`] has the messages of conversations.
//!
//! To implement a saver or a store for a database, you need only this crate. To store the queued runs of a server as
//! well, you also need `hier-runs`.
//!
//! | feature | adds |
//! |---|---|
//! | `compression` | LZ4 compression of stored values |
//! | `encryption` | XChaCha20-Poly1305 encryption of stored values, and the type `Key` |

#[doc(hidden)]
pub mod backend;
pub mod channel;
pub mod checkpoint;
pub mod message;
#[doc(hidden)]
pub mod panics;
pub mod reducer;
pub mod store;
#[doc(hidden)]
pub mod sync;

pub use async_trait::async_trait;
#[cfg(feature = "encryption")]
pub use backend::Key;
