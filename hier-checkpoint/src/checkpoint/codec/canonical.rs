//! `MessagePack` in pieces: sorted maps for hashes, and objects whose values are already encoded.

use super::head::{Head, Heads};
use super::{EncodedFields, pack};
use crate::checkpoint::CodecError;

/// Copies a value and sorts the entries of its maps. The caller must have checked the shape of the bytes.
pub(super) fn sort(rest: &mut Heads<'_>, sorted: &mut Vec<u8>) -> Result<(), CodecError> {
    let before = rest.0;
    let head = rest.next()?;
    sorted.extend_from_slice(&before[..before.len() - rest.0.len()]);
    match head {
        Head::List(length) => (0..length).try_for_each(|_| sort(rest, sorted)),
        Head::Map(length) => {
            let mut entries = Vec::with_capacity(length.min(rest.0.len()));
            for _ in 0..length {
                let mut entry = Vec::new();
                sort(rest, &mut entry)?;
                sort(rest, &mut entry)?;
                entries.push(entry);
            }
            entries.sort_unstable();
            sorted.extend(entries.into_iter().flatten());
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn pack_fields(fields: &[(&str, Vec<u8>)], bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    pack::map(bytes, fields.len())?;
    for (name, value) in fields {
        pack::text(bytes, name)?;
        bytes.extend_from_slice(value.get(1..).unwrap_or_default());
    }
    Ok(())
}

pub(super) fn unpack(format: u8, mut rest: Heads<'_>) -> Result<Option<EncodedFields>, CodecError> {
    let Head::Map(length) = rest.next()? else { return Ok(None) };
    let mut fields = Vec::with_capacity(length.min(rest.0.len()));
    for _ in 0..length {
        let Head::Text(name) = rest.next()? else { return Ok(None) };
        let mut value = vec![format];
        let before = rest.0;
        skip(&mut rest)?;
        value.extend_from_slice(&before[..before.len() - rest.0.len()]);
        fields.push((String::from_utf8_lossy(name).into_owned(), value));
    }
    Ok(Some(fields))
}

fn skip(rest: &mut Heads<'_>) -> Result<(), CodecError> {
    let mut owed = 1_usize;
    while owed > 0 {
        owed = owed - 1
            + match rest.next()? {
                Head::List(length) => length,
                Head::Map(length) => 2 * length,
                _ => 0,
            };
    }
    Ok(())
}
