//! Writes in one piece of bytes: an input, and what a subgraph hands back.

use crate::checkpoint::{CodecError, codec, delta};
use crate::engine::durable::upgrade::Scribe;
use crate::state::{ChannelWrite, Values};

/// Writes in one piece of bytes: each with its channel's name and the mark of an overwrite. Returns how many each takes.
pub(in crate::engine) fn pack_writes<'a, W: ChannelWrite>(
    writes: impl Iterator<Item = &'a W>,
    packed: &mut Vec<u8>,
) -> Result<Vec<usize>, CodecError> {
    packed.push(0);
    let mut sizes = Vec::new();
    for write in writes {
        let before = packed.len();
        let Some(value) = write.stored() else {
            sizes.push(0);
            continue;
        };
        delta::add(packed, write.name().as_bytes());
        let start = delta::begin(packed);
        value.encode(packed)?;
        let bytes = delta::end(packed, start);
        if write.is_overwrite() {
            codec::mark_overwrite(bytes);
        }
        sizes.push(packed.len() - before);
    }
    Ok(sizes)
}

/// The writes again.
pub(in crate::engine) fn unpack_writes<S: Values, C>(
    scribe: &Scribe<'_, S, C>,
    packed: &[u8],
) -> Result<Vec<S::Write>, CodecError> {
    let (_, parts) = delta::unpack(packed)?;
    let (pairs, rest) = parts.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CodecError::new("a write is cut off"));
    }
    let mut writes = Vec::with_capacity(pairs.len());
    for [name, bytes] in pairs {
        let name = std::str::from_utf8(name).map_err(|error| CodecError::new(error.to_string()))?;
        writes.append(&mut scribe.write(None, name, bytes)?);
    }
    Ok(writes)
}
