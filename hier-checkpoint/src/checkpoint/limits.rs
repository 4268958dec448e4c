//! Limits on names and inboxes.

/// The maximum length in bytes of the id of a thread, and of the key and the namespace of a store item. [`name_bytes`]
/// counts this length. The reason for the limit is Postgres, whose index entries have at most 2,704 bytes.
pub const LONGEST_NAME: usize = 2_500;

/// Returns the number of bytes that a name occupies. NUL and backslash count twice, because Postgres stores them
/// escaped.
pub fn name_bytes(name: &str) -> usize {
    name.len() + name.bytes().filter(|byte| matches!(byte, b'\0' | b'\\')).count()
}

/// The maximum size of a thread's inbox in bytes. If a run may still be rolled back, the messages that it has removed
/// count, too. A message that does not fit is refused with [`SaverError::InboxFull`](super::SaverError::InboxFull).
pub const INBOX_BYTES: usize = 16 << 20;

/// The number of bytes that a message occupies in the inbox in addition to its value.
pub const MESSAGE_OVERHEAD: usize = 256;
