use crate::checkpoint::SaverError;
use lz4_flex::block;

use crate::backend::storage_key::StorageKey;

/// Minimum length in bytes of a value that is compressed. Compressing a shorter value would save little.
const WORTH_IT: usize = 128;
/// Maximum ratio that LZ4 reaches. Data that announces a higher ratio is damaged.
const MOST: usize = 256;

/// Returns the compressed bytes, or `None` if the bytes are short or compression does not make them shorter.
pub(super) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < WORTH_IT {
        return None;
    }
    Some(block::compress_prepend_size(bytes)).filter(|packed| packed.len() < bytes.len())
}

pub(super) fn decompress(place: StorageKey<'_>, bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
    let damaged = |error| place.damaged(format!("cannot be decompressed: {error}"));
    let (size, packed) = block::uncompressed_size(bytes).map_err(damaged)?;
    if size > packed.len().saturating_mul(MOST) {
        return Err(place.damaged("is damaged: its stated length exceeds the maximum"));
    }
    block::decompress(packed, size).map_err(damaged)
}
