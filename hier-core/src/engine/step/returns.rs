//! The writes that a subgraph returns when it ends. Drops writes that later writes replace.

use std::sync::Arc;

use crate::channel::ChannelSpec;
use crate::state::ChannelWrite;

/// Number of void bytes that may be stored in addition to the bytes of valid writes. With more void bytes, the next
/// checkpoint stores all writes again.
const BORNE: usize = 4 << 10;

/// The valid writes of a subgraph, by channel. A write is void if a later write replaces it.
#[derive(Debug)]
pub(crate) struct Returns<W> {
    channels: Vec<Vec<ReturnedWrite<W>>>,
    /// The channels that the outer graph reads. None if it reads all channels.
    taken: Option<Arc<[bool]>>,
    /// The number of the last write. Numbers begin at 1.
    last: u64,
    /// The number of the last write that has been stored.
    stored: u64,
    /// The bytes of all stored writes. `live` is the part of them that belongs to valid writes.
    bytes: usize,
    live: usize,
    /// True if the next checkpoint must store all writes again.
    anew: bool,
}

#[derive(Debug)]
struct ReturnedWrite<W> {
    number: u64,
    /// The version of the ledger when the write was made.
    version: u64,
    write: W,
    /// The size of the stored form of the write. 0 if the write is not stored.
    bytes: usize,
}

impl<W> ReturnedWrite<W> {
    /// Returns the index of the first entry with a greater number. The numbers of the entries rise.
    fn first_after(entries: &[Self], number: u64) -> usize {
        entries.partition_point(|entry| entry.number <= number)
    }
}

/// The writes that the next checkpoint stores.
#[derive(Debug)]
pub(crate) struct UnstoredReturns<W> {
    pub(crate) writes: Vec<W>,
    /// True if these are all valid writes. The writes that earlier checkpoints have stored are then void.
    pub(crate) whole: bool,
    /// The stored size of each write. Empty until the writes are stored.
    pub(crate) sizes: Vec<usize>,
}

impl<W> Default for UnstoredReturns<W> {
    fn default() -> Self {
        Self { writes: Vec::new(), whole: false, sizes: Vec::new() }
    }
}

impl<W: ChannelWrite> Returns<W> {
    pub(crate) fn new(channels: usize) -> Self {
        let channels = std::iter::repeat_with(Vec::new).take(channels).collect();
        Self { channels, taken: None, last: 0, stored: 0, bytes: 0, live: 0, anew: false }
    }

    pub(crate) fn take_only(&mut self, channels: &Arc<[bool]>) {
        self.taken = Some(channels.clone());
    }

    #[inline]
    pub(crate) fn takes(&self, channel: usize) -> bool {
        self.taken.as_ref().is_none_or(|taken| taken[channel])
    }

    /// Adds a write. If it replaces earlier writes, they become void.
    pub(crate) fn push(&mut self, channels: &[ChannelSpec], version: u64, write: W) {
        self.last += 1;
        let channel = write.channel();
        if channels[channel].kind.single_writer() || write.is_overwrite() {
            self.live -= self.channels[channel].drain(..).map(|entry| entry.bytes).sum::<usize>();
        }
        self.channels[channel].push(ReturnedWrite { number: self.last, version, write, bytes: 0 });
    }

    /// Marks all writes as stored. `bytes` is their stored size, including that of void writes.
    pub(crate) fn are_stored(&mut self, bytes: usize) {
        self.stored = self.last;
        let each = bytes / usize::try_from(self.last).unwrap_or(usize::MAX).max(1);
        self.entries_mut().for_each(|entry| entry.bytes = each);
        self.bytes = bytes;
        self.live = self.channels.iter().flatten().count() * each;
    }

    pub(crate) fn store_again(&mut self) {
        self.anew = true;
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { taken: self.taken.take(), ..Self::new(self.channels.len()) };
    }

    /// Returns the writes that are not stored yet. Returns all valid writes if too many stored writes are void.
    pub(crate) fn unstored(&self) -> UnstoredReturns<W> {
        let whole = self.anew || self.bytes > 2 * self.live + BORNE;
        let after = if whole { 0 } else { self.stored };
        let writes = self.after(after).into_iter().map(|(_, channel, at)| self.channels[channel][at].write.clone());
        UnstoredReturns { writes: writes.collect(), whole, sizes: Vec::new() }
    }

    /// Returns number, channel and index of the later writes, in order. A sort of writes would be compiled for each state.
    fn after(&self, number: u64) -> Vec<(u64, usize, usize)> {
        let mut found = Vec::new();
        for (channel, entries) in self.channels.iter().enumerate() {
            let first = ReturnedWrite::first_after(entries, number);
            found.extend((first..entries.len()).map(|at| (entries[at].number, channel, at)));
        }
        found.sort_unstable();
        found
    }

    pub(crate) fn mark_stored(&mut self, fresh: &UnstoredReturns<W>) {
        let after = if fresh.whole { 0 } else { self.stored };
        if fresh.whole {
            (self.bytes, self.live, self.anew) = (0, 0, false);
        }
        self.stored = self.last;
        for ((_, channel, at), bytes) in self.after(after).into_iter().zip(&fresh.sizes) {
            self.channels[channel][at].bytes = *bytes;
        }
        let stored: usize = fresh.sizes.iter().sum();
        (self.bytes, self.live) = (self.bytes + stored, self.live + stored);
    }

    /// Takes the valid writes in order, limited to the channels that the outer graph reads. Leaves out a write if
    /// `holds` returns false for its channel and version.
    pub(crate) fn into_writes(self, holds: impl Fn(usize, u64) -> bool) -> Vec<W> {
        let taken = |channel: usize| self.taken.as_ref().is_none_or(|taken| taken[channel]);
        let of_taken = (0..).zip(self.channels).filter(|(channel, _)| taken(*channel));
        let of_taken = of_taken.flat_map(|(channel, entries)| entries.into_iter().map(move |entry| (channel, entry)));
        let entries = of_taken.filter(|(channel, entry)| holds(*channel, entry.version));
        let (mut order, mut writes): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for (_, ReturnedWrite { number, write, .. }) in entries {
            order.push((number, writes.len()));
            writes.push(Some(write));
        }
        // Sorting numbers moves less memory than sorting writes.
        order.sort_unstable();
        order.into_iter().filter_map(|(_, place)| writes[place].take()).collect()
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut ReturnedWrite<W>> {
        self.channels.iter_mut().flatten()
    }
}
