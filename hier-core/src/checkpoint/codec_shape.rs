//! Looks at the shape of `MessagePack` before it is read. What is stored may come from anybody: a length that no bytes
//! follow would make a collection reserve that much memory, and nesting without end would exhaust the stack.

use super::error::CodecError;

/// Checks that everything the bytes announce is there, and that nothing is nested deeper than this. Returns how many bytes the value has.
pub(super) fn check(bytes: &[u8], depth: usize) -> Result<usize, CodecError> {
    let mut rest = Rest(bytes);
    // How many values are still to come in the innermost collection that has begun, and in each around it.
    let (mut left, mut open): (u64, Vec<u64>) = (1, Vec::new());
    // And in all of them.
    let mut owed = 1_u64;
    while owed > 0 {
        let (values, skipped) = rest.head()?;
        rest.skip(skipped)?;
        owed = (owed - 1).saturating_add(values);
        if owed > rest.0.len() as u64 {
            return Err(cut());
        }
        left -= 1;
        if values > 0 {
            open.push(std::mem::replace(&mut left, values));
            if open.len() > depth {
                return Err(CodecError(format!("it is nested more than {depth} deep: keep it flatter, or as a text")));
            }
        } else {
            // With its last value a collection is complete, and so may be the one that it is in.
            while left == 0
                && let Some(around) = open.pop()
            {
                left = around;
            }
        }
    }
    Ok(bytes.len() - rest.0.len())
}

fn cut() -> CodecError {
    CodecError("it announces more than is there".to_owned())
}

/// The bytes that were not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Reads how a value begins: how many values are in it, and how many bytes.
    fn head(&mut self) -> Result<(u64, u64), CodecError> {
        let (marker, rest) = self.0.split_first().ok_or_else(cut)?;
        self.0 = rest;
        let marker = u64::from(*marker);
        Ok(match marker {
            0x80..=0x8f => (2 * (marker & 0x0f), 0),
            0x90..=0x9f => (marker & 0x0f, 0),
            0xa0..=0xbf => (0, marker & 0x1f),
            // Bytes, extensions (with a byte for their kind), texts; their lengths in 1, 2 or 4 bytes.
            0xc4..=0xc6 => (0, self.number(1 << (marker - 0xc4))?),
            0xc7..=0xc9 => (0, 1 + self.number(1 << (marker - 0xc7))?),
            0xd9..=0xdb => (0, self.number(1 << (marker - 0xd9))?),
            // Numbers and extensions of fixed lengths.
            0xca | 0xce | 0xd2 => (0, 4),
            0xcb | 0xcf | 0xd3 => (0, 8),
            0xcc | 0xd0 => (0, 1),
            0xcd | 0xd1 => (0, 2),
            0xd4..=0xd8 => (0, 1 + (1 << (marker - 0xd4))),
            // Lists and objects; their lengths in 2 or 4 bytes.
            0xdc | 0xdd => (self.number(2 << (marker - 0xdc))?, 0),
            0xde | 0xdf => (2 * self.number(2 << (marker - 0xde))?, 0),
            0xc1 => return Err(CodecError("it has a byte that means nothing".to_owned())),
            // Small numbers, true, false, nothing.
            _ => (0, 0),
        })
    }

    /// A number of so many bytes.
    fn number(&mut self, length: usize) -> Result<u64, CodecError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn skip(&mut self, length: u64) -> Result<(), CodecError> {
        let length = usize::try_from(length).map_err(|_| cut())?;
        self.0 = self.0.get(length..).ok_or_else(cut)?;
        Ok(())
    }
}
