//! Contracts of savers and stores, with implementations in memory.
//!
//! [`checkpoint`] defines savers, [`store`] memory across threads. A saver stores the values of channels ([`channel`]) that reducers
//! merge ([`reducer`]), among them conversations ([`message`]). A crate that keeps these in a database depends on this crate alone.
//! One that also keeps queued runs depends on `hier-runs`.
//!
//! | feature | adds |
//! |---|---|
//! | `compression` | LZ4 for stored values |
//! | `encryption` | XChaCha20-Poly1305 for stored values, `Key` |

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
