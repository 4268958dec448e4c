//! How long names may be.

use super::error::SaverError;

/// How many bytes the name of a thread, and the key and the namespace of an item of a store, have at most; those that [`name_bytes`]
/// counts. Databases keep them in indexes, and an entry of an index of Postgres has at most 2,704 bytes.
pub const LONGEST_NAME: usize = 2_500;

/// How many bytes a name takes: a NUL and a backslash count twice, since Postgres stores them escaped.
pub fn name_bytes(name: &str) -> usize {
    name.len() + name.bytes().filter(|byte| matches!(byte, b'\0' | b'\\')).count()
}

/// Whether a thread can have this name, for savers: whatever stores a thread that may be new refuses other names.
pub fn check_thread(name: &str) -> Result<(), SaverError> {
    let bytes = name_bytes(name);
    if bytes <= LONGEST_NAME {
        return Ok(());
    }
    let begin: String = name.chars().take(40).collect();
    Err(SaverError::Invalid(format!(
        "the name of thread `{begin}…` has {bytes} bytes: give one of at most {LONGEST_NAME} (a NUL or a backslash counts twice)"
    )))
}
