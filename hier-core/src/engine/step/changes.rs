//! Tracks the changes that the next checkpoint stores.

use crate::channel::ChannelSpec;
use crate::checkpoint::CodecError;
use crate::checkpoint::delta;
use crate::checkpoint::scratch::Scratch;
use crate::state::{ChannelWrite, encode_readable};

#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The changed channels, without duplicates.
    pub(crate) changed: Vec<usize>,
    /// The writes to channels that are stored in parts.
    pub(crate) parts: Vec<ChangedPart>,
    /// True for each channel that is stored in parts.
    pub(crate) grows: Vec<bool>,
    /// True for each channel with a part that was encoded and read back.
    readable: Vec<bool>,
    pub(crate) error: Option<(usize, CodecError)>,
    scratch: Scratch,
}

/// A write to a channel that is stored in parts.
#[derive(Debug)]
pub(crate) struct ChangedPart {
    pub(crate) channel: usize,
    pub(crate) overwrite: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Changes {
    pub(crate) fn new(channels: &[ChannelSpec]) -> Self {
        let grows = channels.iter().map(|spec| delta::grows(spec).is_some()).collect();
        Self { grows, readable: vec![false; channels.len()], ..Self::default() }
    }

    /// Records a write. `first` is true for the first write of the channel in this superstep.
    #[inline]
    pub(crate) fn write<W: ChannelWrite>(&mut self, write: &W, first: bool) {
        let channel = write.channel();
        if first {
            self.changed.push(channel);
        }
        if self.grows[channel] {
            self.part(channel, write);
        }
    }

    fn part<W: ChannelWrite>(&mut self, channel: usize, write: &W) {
        let (scratch, readable) = (&mut self.scratch, &mut self.readable[channel]);
        let encode = |value| scratch.bytes(|bytes| encode_readable(value, bytes, readable));
        let encoded = write.stored().map_or(Ok(Vec::new()), encode);
        match encoded {
            Ok(bytes) => self.parts.push(ChangedPart { channel, overwrite: write.is_overwrite(), bytes }),
            Err(error) => self.error = Some((channel, error)),
        }
    }

    pub(crate) fn cleared(&mut self, channel: usize) {
        if !self.changed.contains(&channel) {
            self.changed.push(channel);
        }
    }

    pub(crate) fn store_again(&mut self, channels: &[usize]) {
        for channel in channels {
            self.cleared(*channel);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.changed.clear();
        self.parts.clear();
    }
}
