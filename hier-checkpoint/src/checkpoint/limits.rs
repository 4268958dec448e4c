/// The maximum length, in bytes, of a thread's id, and of a store item's key and namespace. [`name_bytes`] counts this
/// length. The reason for the limit is Postgres, whose index entries have at most 2,704 bytes.
pub const LONGEST_NAME: usize = 2_500;

/// Returns the number of bytes that a name occupies. The characters U+0000 and U+0001 count twice, because Postgres
/// stores them escaped.
pub fn name_bytes(name: &str) -> usize {
    name.len() + name.bytes().filter(|byte| *byte <= 1).count()
}

/// The maximum size of a thread's inbox in bytes. The size includes the messages that a run has removed, as long as
/// that run may be rolled back. For a message that does not fit, [`Inbox::post`](super::Inbox::post) fails with
/// [`SaverError::InboxFull`](super::SaverError::InboxFull).
pub const INBOX_BYTES: usize = 16 << 20;

/// The number of bytes that a message occupies in the inbox in addition to its value and the name of its signal.
pub const MESSAGE_OVERHEAD: usize = 256;
