//! Parts for authors of savers and stores with a database: rows, encoded values, and deletion.

#[cfg(feature = "encryption")]
mod cipher;
#[cfg(feature = "compression")]
mod compression;
pub mod items;
#[cfg(feature = "encryption")]
mod key;
pub mod latest;
pub mod lease;
pub mod retention;
pub mod rows;
mod settle;
pub mod storage_key;
pub mod unreadable;
pub mod value_codec;

#[cfg(feature = "encryption")]
pub use key::Key;
