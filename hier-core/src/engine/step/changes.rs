//! What a step has written, noted while it is merged: what the next checkpoint has to store.

use crate::channel::ChannelSpec;
use crate::checkpoint::CodecError;
use crate::checkpoint::delta;
use crate::checkpoint::scratch::Scratch;
use crate::state::ChannelWrite;

/// What a step has written, noted while it is merged.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The channels that changed, each once.
    pub(crate) changed: Vec<usize>,
    /// What was written to channels that are stored as what was added.
    pub(crate) parts: Vec<ChangedPart>,
    /// For each channel whether it is stored as what was added.
    pub(crate) grows: Vec<bool>,
    pub(crate) error: Option<(usize, CodecError)>,
    scratch: Scratch,
}

/// One write of a channel that is stored as what was added.
#[derive(Debug)]
pub(crate) struct ChangedPart {
    pub(crate) channel: usize,
    pub(crate) overwrite: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Changes {
    pub(crate) fn new(channels: &[ChannelSpec]) -> Self {
        Self { grows: channels.iter().map(|spec| delta::grows(spec).is_some()).collect(), ..Self::default() }
    }

    /// Changes a write. `first`: the first of this channel in this step.
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
        let encoded = write.stored().map_or(Ok(Vec::new()), |value| self.scratch.bytes(|bytes| value.encode(bytes)));
        match encoded {
            Ok(bytes) => self.parts.push(ChangedPart { channel, overwrite: write.is_overwrite(), bytes }),
            Err(error) => self.error = Some((channel, error)),
        }
    }

    /// Changes that a channel was cleared.
    pub(crate) fn cleared(&mut self, channel: usize) {
        if !self.changed.contains(&channel) {
            self.changed.push(channel);
        }
    }

    /// Changes channels whose values have to be stored again.
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
