//! Limits on the length of names.

use super::error::SaverError;

/// Maximum length in bytes, as counted by [`name_bytes`], of a thread name, and of the key and the namespace of a store item. Databases
/// keep these names in indexes, and a Postgres index entry has at most 2,704 bytes.
pub const LONGEST_NAME: usize = 2_500;

/// Returns the number of bytes that a name takes. A NUL and a backslash count twice, because Postgres stores them escaped.
pub fn name_bytes(name: &str) -> usize {
    name.len() + name.bytes().filter(|byte| matches!(byte, b'\0' | b'\\')).count()
}

/// Returns an error if a thread cannot have this name. Savers call this before they store a thread that may be new.
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
