//! Writes values without collections, and the beginnings of collections, as `MessagePack` in its shortest form.

use std::ops::Range;

use super::{EMPTY_SOME, FIXEXT1, FIXEXT16};
use crate::checkpoint::CodecError;

#[inline]
pub(super) fn bool(bytes: &mut Vec<u8>, value: bool) {
    bytes.push(0xc2 | u8::from(value));
}

#[inline]
pub(super) fn unsigned(bytes: &mut Vec<u8>, value: u64) {
    if let Ok(value) = u8::try_from(value) {
        if value < 0x80 { bytes.push(value) } else { behind(bytes, 0xcc, [value]) }
    } else if let Ok(value) = u16::try_from(value) {
        behind(bytes, 0xcd, value.to_be_bytes());
    } else if let Ok(value) = u32::try_from(value) {
        behind(bytes, 0xce, value.to_be_bytes());
    } else {
        behind(bytes, 0xcf, value.to_be_bytes());
    }
}

#[inline]
pub(super) fn signed(bytes: &mut Vec<u8>, value: i64) {
    if let Ok(value) = u64::try_from(value) {
        unsigned(bytes, value);
    } else if let Ok(value) = i8::try_from(value) {
        if value >= -32 { bytes.push(value.cast_unsigned()) } else { behind(bytes, 0xd0, value.to_be_bytes()) }
    } else if let Ok(value) = i16::try_from(value) {
        behind(bytes, 0xd1, value.to_be_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        behind(bytes, 0xd2, value.to_be_bytes());
    } else {
        behind(bytes, 0xd3, value.to_be_bytes());
    }
}

#[inline]
pub(super) fn f32(bytes: &mut Vec<u8>, value: f32) {
    behind(bytes, 0xca, value.to_be_bytes());
}

#[inline]
pub(super) fn f64(bytes: &mut Vec<u8>, value: f64) {
    behind(bytes, 0xcb, value.to_be_bytes());
}

#[inline]
pub(super) fn text(bytes: &mut Vec<u8>, value: &str) -> Result<(), CodecError> {
    length(bytes, value.len(), 0xa0..0xc0, Some(0xd9), 0xda)?;
    bytes.extend_from_slice(value.as_bytes());
    Ok(())
}

#[inline]
pub(super) fn binary(bytes: &mut Vec<u8>, value: &[u8]) -> Result<(), CodecError> {
    length(bytes, value.len(), 0..0, Some(0xc4), 0xc5)?;
    bytes.extend_from_slice(value);
    Ok(())
}

#[inline]
pub(super) fn list(bytes: &mut Vec<u8>, items: usize) -> Result<(), CodecError> {
    length(bytes, items, 0x90..0xa0, None, 0xdc)
}

#[inline]
pub(super) fn map(bytes: &mut Vec<u8>, entries: usize) -> Result<(), CodecError> {
    length(bytes, entries, 0x80..0x90, None, 0xde)
}

pub(super) fn large(bytes: &mut Vec<u8>, kind: i8, value: [u8; 16]) {
    bytes.extend_from_slice(&[FIXEXT16, kind.cast_unsigned()]);
    bytes.extend_from_slice(&value);
}

pub(super) fn somes(bytes: &mut Vec<u8>, depth: u8) {
    bytes.extend_from_slice(&[FIXEXT1, EMPTY_SOME.cast_unsigned(), depth]);
}

/// Writes a length in its shortest form. A length below the size of `short` is part of the marker. Other lengths have 1
/// byte after the marker `byte`, if the type has this form, 2 bytes after `two`, or 4 bytes after `two + 1`.
#[inline]
fn length(bytes: &mut Vec<u8>, length: usize, short: Range<u8>, byte: Option<u8>, two: u8) -> Result<(), CodecError> {
    if length < short.len() {
        bytes.push(short.start | length.to_le_bytes()[0]);
        return Ok(());
    }
    long_length(bytes, length, byte, two)
}

fn long_length(bytes: &mut Vec<u8>, length: usize, byte: Option<u8>, two: u8) -> Result<(), CodecError> {
    if let (Ok(length), Some(byte)) = (u8::try_from(length), byte) {
        behind(bytes, byte, [length]);
    } else if let Ok(length) = u16::try_from(length) {
        behind(bytes, two, length.to_be_bytes());
    } else {
        let length = u32::try_from(length)
            .map_err(|_| CodecError::new("a string, list or map is longer than 4 GiB or 2³² items"))?;
        behind(bytes, two + 1, length.to_be_bytes());
    }
    Ok(())
}

#[inline]
fn behind<const N: usize>(bytes: &mut Vec<u8>, marker: u8, content: [u8; N]) {
    let mut all = [marker; 9];
    all[1..=N].copy_from_slice(&content);
    bytes.extend_from_slice(&all[..=N]);
}
