//! What a subgraph has written, which it hands back when it ends: no more of it is kept than can still reach the outer graph.

use std::sync::Arc;

use crate::channel::ChannelSpec;
use crate::state::ChannelWrite;

/// So many bytes of what is void are always borne before everything is stored anew.
const BORNE: usize = 4 << 10;

/// The writes of a subgraph that later ones have not made void, by channel.
#[derive(Debug)]
pub(crate) struct Returns<W> {
    channels: Vec<Vec<ReturnedWrite<W>>>,
    /// Of which channels the outer graph takes what was written; none: of all.
    taken: Option<Arc<[bool]>>,
    /// The number of the last write.
    last: u64,
    /// The number of the last write that has been stored.
    stored: u64,
    /// The bytes of all that is stored, and of what of it is not void.
    bytes: usize,
    live: usize,
    /// Whether everything is to be stored anew.
    anew: bool,
}

#[derive(Debug)]
struct ReturnedWrite<W> {
    number: u64,
    /// The version of the ledger at which it was written.
    version: u64,
    write: W,
    /// How many bytes it takes where it is stored.
    bytes: usize,
}

impl<W> ReturnedWrite<W> {
    /// The place of the first entry of a channel that was written after this number. Numbers rise within a channel: what was
    /// written long ago is not looked at again by each checkpoint.
    fn first_after(entries: &[Self], number: u64) -> usize {
        entries.partition_point(|entry| entry.number <= number)
    }
}

/// What the next checkpoint stores of it.
#[derive(Debug)]
pub(crate) struct UnstoredReturns<W> {
    /// The writes, in order.
    pub(crate) writes: Vec<W>,
    /// Whether they are all there are: what was stored before is void.
    pub(crate) whole: bool,
    /// How many bytes each takes, once they are stored.
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

    /// The outer graph takes what was written to these channels only.
    pub(crate) fn take_only(&mut self, channels: &Arc<[bool]>) {
        self.taken = Some(channels.clone());
    }

    /// Whether the outer graph takes what was written to a channel.
    #[inline]
    pub(crate) fn takes(&self, channel: usize) -> bool {
        self.taken.as_ref().is_none_or(|taken| taken[channel])
    }

    /// A write, which makes void what was written before if it takes its place.
    pub(crate) fn push(&mut self, channels: &[ChannelSpec], version: u64, write: W) {
        self.last += 1;
        let channel = write.channel();
        if channels[channel].kind.single_writer() || write.is_overwrite() {
            self.live -= self.channels[channel].drain(..).map(|entry| entry.bytes).sum::<usize>();
        }
        self.channels[channel].push(ReturnedWrite { number: self.last, version, write, bytes: 0 });
    }

    /// All that has been pushed is stored, in so many bytes with what has become void.
    pub(crate) fn are_stored(&mut self, bytes: usize) {
        self.stored = self.last;
        let each = bytes / usize::try_from(self.last).unwrap_or(usize::MAX).max(1);
        self.entries_mut().for_each(|entry| entry.bytes = each);
        self.bytes = bytes;
        self.live = self.channels.iter().flatten().count() * each;
    }

    /// Nothing is stored as this program would store it.
    pub(crate) fn store_again(&mut self) {
        self.anew = true;
    }

    /// Nothing has been written yet.
    pub(crate) fn clear(&mut self) {
        *self = Self { taken: self.taken.take(), ..Self::new(self.channels.len()) };
    }

    /// What is to be stored: what has not been, or everything, if most of what is stored is void.
    pub(crate) fn unstored(&self) -> UnstoredReturns<W> {
        let whole = self.anew || self.bytes > 2 * self.live + BORNE;
        let after = if whole { 0 } else { self.stored };
        let mut entries: Vec<_> =
            self.channels.iter().flat_map(|entries| &entries[ReturnedWrite::first_after(entries, after)..]).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        UnstoredReturns {
            writes: entries.into_iter().map(|entry| entry.write.clone()).collect(),
            whole,
            sizes: Vec::new(),
        }
    }

    /// That has been stored.
    pub(crate) fn mark_stored(&mut self, fresh: &UnstoredReturns<W>) {
        let after = if fresh.whole { 0 } else { self.stored };
        if fresh.whole {
            (self.bytes, self.live, self.anew) = (0, 0, false);
        }
        self.stored = self.last;
        let mut entries: Vec<_> = (self.channels.iter_mut())
            .flat_map(|entries| {
                let first = ReturnedWrite::first_after(entries, after);
                &mut entries[first..]
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        for (entry, bytes) in entries.into_iter().zip(&fresh.sizes) {
            entry.bytes = *bytes;
        }
        let stored: usize = fresh.sizes.iter().sum();
        (self.bytes, self.live) = (self.bytes + stored, self.live + stored);
    }

    /// The writes that the outer graph takes and that are not void, in order, if this holds of their channel and their version.
    pub(crate) fn take(self, holds: impl Fn(usize, u64) -> bool) -> Vec<W> {
        let taken = |channel: usize| self.taken.as_ref().is_none_or(|taken| taken[channel]);
        let of_taken = (0..).zip(self.channels).filter(|(channel, _)| taken(*channel));
        let of_taken = of_taken.flat_map(|(channel, entries)| entries.into_iter().map(move |entry| (channel, entry)));
        let entries = of_taken.filter(|(channel, entry)| holds(*channel, entry.version));
        let (mut order, mut writes): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for (_, ReturnedWrite { number, write, .. }) in entries {
            order.push((number, writes.len()));
            writes.push(Some(write));
        }
        // Numbers are put in order rather than writes, which are longer.
        order.sort_unstable();
        order.into_iter().filter_map(|(_, place)| writes[place].take()).collect()
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut ReturnedWrite<W>> {
        self.channels.iter_mut().flatten()
    }
}
