//! Checks the shape of `MessagePack` before it is read, because stored data may be untrusted. Without this check, a
//! false length would reserve memory, and deep nesting would exhaust the stack.

use super::head::{Head, Heads, cut};
use super::too_deep;
use crate::checkpoint::CodecError;

/// Checks that all announced bytes exist and the nesting is at most `depth`. Returns the size of the value in bytes.
pub(super) fn check(bytes: &[u8], depth: usize) -> Result<usize, CodecError> {
    let mut rest = Heads(bytes);
    // Number of remaining values in the innermost open collection, and in each around it.
    let (mut left, mut open): (u64, Vec<u64>) = (1, Vec::new());
    // Number of remaining values in all open collections.
    let mut owed = 1_u64;
    while owed > 0 {
        let values = match rest.next()? {
            Head::List(length) => length as u64,
            Head::Map(length) => 2 * length as u64,
            _ => 0,
        };
        owed = (owed - 1).saturating_add(values);
        if owed > rest.0.len() as u64 {
            return Err(cut());
        }
        left -= 1;
        if values > 0 {
            open.push(std::mem::replace(&mut left, values));
            if open.len() > depth {
                return Err(too_deep(depth));
            }
        } else {
            // The last value of a collection completes it, and possibly the collections around it.
            while left == 0
                && let Some(around) = open.pop()
            {
                left = around;
            }
        }
    }
    Ok(bytes.len() - rest.0.len())
}
