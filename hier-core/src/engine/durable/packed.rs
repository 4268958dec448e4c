//! Packs several writes into bytes: the writes of an input, or the writes that a subgraph returns.

use crate::channel::{ChannelSpec, LAST};
use crate::checkpoint::{CodecError, codec, delta};
use crate::engine::attempt::stored::WriteRule;
use crate::engine::durable::upgrade::RecordRewriter;
use crate::state::{ChannelWrite, Values, encode_readable, secret};

/// Packs writes, each with the name and the reducer of its channel. Returns the size of each packed write.
pub(in crate::engine) fn pack_writes<'a, W: ChannelWrite>(
    specs: &[ChannelSpec],
    writes: impl Iterator<Item = &'a W>,
    packed: &mut Vec<u8>,
) -> Result<Vec<usize>, CodecError> {
    delta::begin_writes(packed);
    let mut sizes = Vec::new();
    for write in writes {
        let before = packed.len();
        let Some(value) = write.stored() else {
            sizes.push(0);
            continue;
        };
        delta::add(packed, write.name().as_bytes());
        delta::add(packed, specs.get(write.channel()).map_or(LAST, ChannelSpec::rule).as_bytes());
        let start = delta::begin(packed);
        encode_readable(value, packed, &mut false).map_err(|error| {
            let error = secret::unfit(write.is_secret(), error);
            CodecError::new(format!("channel `{}`: {error}", write.name()))
        })?;
        let bytes = delta::end(packed, start);
        if write.is_overwrite() {
            codec::mark_overwrite(bytes);
        }
        sizes.push(packed.len() - before);
    }
    Ok(sizes)
}

pub(in crate::engine) fn unpack_writes<S: Values, C>(
    rewriter: &RecordRewriter<'_, S, C>,
    packed: &[u8],
) -> Result<Vec<S::Write>, CodecError> {
    let parts = delta::unpack_writes(packed)?;
    let (entries, rest) = parts.as_chunks::<3>();
    if !rest.is_empty() {
        return Err(CodecError::new("a write is cut off"));
    }
    let text = |bytes| std::str::from_utf8(bytes).map_err(|error| CodecError::new(error.to_string()));
    let mut writes = Vec::with_capacity(entries.len());
    for [name, rule, bytes] in entries {
        let (name, reducer) = (text(name)?, text(rule)?);
        let written = rewriter.write(WriteRule { version: None, reducer }, name, bytes);
        writes.append(&mut written.map_err(|error| CodecError::new(format!("channel `{name}`: {error}")))?);
    }
    Ok(writes)
}
