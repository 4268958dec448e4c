//! Limits on names and inboxes.

/// Maximum length in bytes, as counted by [`name_bytes`], of a thread name, and of the key and the namespace of a store item. Databases
/// keep these names in indexes, and a Postgres index entry has at most 2,704 bytes.
pub const LONGEST_NAME: usize = 2_500;

/// Returns the number of bytes that a name takes. A NUL and a backslash count twice, because Postgres stores them escaped.
pub fn name_bytes(name: &str) -> usize {
    name.len() + name.bytes().filter(|byte| matches!(byte, b'\0' | b'\\')).count()
}

/// Maximum size of the inbox of one thread, in bytes. Messages taken by a run that may still be rolled back count. A message that does not
/// fit is refused with [`SaverError::InboxFull`](super::SaverError::InboxFull).
pub const INBOX_BYTES: usize = 16 << 20;

/// Size of a message in the inbox in addition to its value, in bytes.
pub const MESSAGE_OVERHEAD: usize = 256;
