use std::fmt;

use crate::checkpoint::SaverError;
use zeroize::Zeroize;

/// A secret key for encryption: 32 random bytes. Store the key in another place than the database.
///
/// Dropping the key wipes it from memory. Its `Debug` output does not contain the bytes.
///
/// ```
/// use hier_checkpoint::Key;
///
/// let key = Key::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
/// assert_eq!(format!("{key:?}"), "Key(…)");
/// # Ok::<(), hier_checkpoint::checkpoint::SaverError>(())
/// ```
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Creates a key from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Creates a key from 64 hexadecimal digits, such as those of an environment variable.
    ///
    /// Ignores whitespace around the digits. Fails with [`SaverError::Invalid`] for any other text.
    pub fn from_hex(digits: &str) -> Result<Self, SaverError> {
        let mut bytes = [0; 32];
        let digits = digits.trim().as_bytes();
        if digits.len() != 64 {
            return Err(SaverError::Invalid(format!("a key has 64 hexadecimal digits, not {}", digits.len())));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(SaverError::Invalid("a key has only the digits 0 to 9 and a to f".to_owned()));
            };
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
