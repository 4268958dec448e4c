//! The pure rules of this crate: channels, writes and reducers, and which rows may be deleted or skipped.

mod channels;
mod conversations;
mod reducers;
mod retention;
#[cfg(feature = "encryption")]
mod unread_rows;
