//! The beginnings of values in `MessagePack`.

use super::{EMPTY_SOME, FIXEXT1, I128, NIL, U128};
use crate::checkpoint::CodecError;

/// A value that is not a collection, or the beginning of a collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Head<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    F32(f32),
    F64(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(usize),
    Map(usize),
    /// The bytes in big-endian order. A reference, as for `U128`, keeps the enum small.
    I128(&'a [u8; 16]),
    U128(&'a [u8; 16]),
    Somes(u8),
}

impl Head<'_> {
    pub(super) fn in_words(&self) -> &'static str {
        match self {
            Self::Nil | Self::Somes(_) => "nothing",
            Self::Bool(_) => "a yes or no",
            Self::Unsigned(_) | Self::Signed(_) | Self::F32(_) | Self::F64(_) | Self::I128(_) | Self::U128(_) => {
                "a number"
            }
            Self::Text(_) => "a string",
            Self::Bytes(_) => "a row of bytes",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

pub(super) fn cut() -> CodecError {
    CodecError::new("it is cut off or damaged")
}

#[derive(Clone, Copy)]
pub(super) struct Heads<'a>(pub(super) &'a [u8]);

impl<'a> Heads<'a> {
    pub(super) fn peek(&self) -> Option<Head<'a>> {
        let mut ahead = *self;
        ahead.next().ok()
    }

    /// Returns true if the next value is nil, or a nil inside `Some`s.
    pub(super) fn may_be_empty(&self) -> bool {
        match self.0 {
            [NIL, ..] => true,
            [FIXEXT1, kind, ..] => kind.cast_signed() == EMPTY_SOME,
            _ => false,
        }
    }

    #[expect(clippy::inline_always, reason = "the caller's match on the head then becomes one on the marker")]
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Head<'a>, CodecError> {
        let [marker] = self.array()?;
        Ok(match marker {
            0x00..=0x7f => Head::Unsigned(marker.into()),
            0x80..=0x8f => Head::Map(usize::from(marker & 0x0f)),
            0x90..=0x9f => Head::List(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Head::Text(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Head::Nil,
            0xc1 => return Err(CodecError::new("it has an invalid byte")),
            0xc2 | 0xc3 => Head::Bool(marker == 0xc3),
            // The lengths of bytes, extensions and texts have 1, 2 or 4 bytes.
            0xc4..=0xc6 => Head::Bytes(self.counted(1 << (marker - 0xc4))?),
            0xc7..=0xc9 => {
                let length = self.length(1 << (marker - 0xc7))?;
                self.extension(length)?
            }
            0xca => Head::F32(f32::from_be_bytes(self.array()?)),
            0xcb => Head::F64(f64::from_be_bytes(self.array()?)),
            0xcc => Head::Unsigned(u8::from_be_bytes(self.array()?).into()),
            0xcd => Head::Unsigned(u16::from_be_bytes(self.array()?).into()),
            0xce => Head::Unsigned(u32::from_be_bytes(self.array()?).into()),
            0xcf => Head::Unsigned(u64::from_be_bytes(self.array()?)),
            0xd0 => signed(i8::from_be_bytes(self.array()?).into()),
            0xd1 => signed(i16::from_be_bytes(self.array()?).into()),
            0xd2 => signed(i32::from_be_bytes(self.array()?).into()),
            0xd3 => signed(i64::from_be_bytes(self.array()?)),
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4))?,
            0xd9..=0xdb => Head::Text(self.counted(1 << (marker - 0xd9))?),
            // The lengths of lists and maps have 2 or 4 bytes.
            0xdc | 0xdd => Head::List(self.length(2 << (marker - 0xdc))?),
            0xde | 0xdf => Head::Map(self.length(2 << (marker - 0xde))?),
            0xe0..=0xff => Head::Signed(marker.cast_signed().into()),
        })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*bytes)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn unsigned(&mut self, size: usize) -> Result<u64, CodecError> {
        Ok(self.take(size)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, size: usize) -> Result<usize, CodecError> {
        usize::try_from(self.unsigned(size)?).map_err(|_| cut())
    }

    fn counted(&mut self, size: usize) -> Result<&'a [u8], CodecError> {
        let length = self.length(size)?;
        self.take(length)
    }

    #[cold]
    fn extension(&mut self, length: usize) -> Result<Head<'a>, CodecError> {
        let [kind] = self.array()?;
        let content = self.take(length)?;
        let unknown = || CodecError::new("it has an extension that this version of hier does not know");
        match (kind.cast_signed(), content) {
            (EMPTY_SOME, [depth @ 1..=u8::MAX]) => Ok(Head::Somes(*depth)),
            (I128, content) => content.try_into().map(Head::I128).map_err(|_| unknown()),
            (U128, content) => content.try_into().map(Head::U128).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

/// Returns the head of a number in a signed format. A number from 0 upwards becomes [`Head::Unsigned`].
fn signed<'a>(value: i64) -> Head<'a> {
    u64::try_from(value).map_or(Head::Signed(value), Head::Unsigned)
}
