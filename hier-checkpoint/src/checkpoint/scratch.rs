//! A buffer that is reused for each encoded value, so that a stored value takes one allocation of its exact length.

use super::CodecError;

/// Maximum length in bytes of a value that is copied out of the buffer. A longer value takes the buffer itself.
const LONG: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// Calls `encode` with an empty buffer, and returns the bytes that `encode` has written to it.
    pub fn bytes(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), CodecError>,
    ) -> Result<Vec<u8>, CodecError> {
        self.0.clear();
        encode(&mut self.0)?;
        Ok(if self.0.len() > LONG { std::mem::take(&mut self.0) } else { self.0.as_slice().to_vec() })
    }
}
