//! Sets of channels that constants can compute with.

/// A set of the channels of one state, by their indices. It holds the first [`ChannelSet::CAPACITY`] channels. Its
/// functions have no loops, because the compiler interprets them for each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelSet([u64; WORDS]);

const WORDS: usize = 4;

impl ChannelSet {
    /// The number of channels that a set can hold. If a node names a channel beyond this number, the rules of the data
    /// flow do not check the node.
    pub const CAPACITY: usize = 64 * WORDS;
    /// The set without channels.
    pub const EMPTY: Self = Self([0; WORDS]);
    /// The set of all channels.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// Adds a channel. Ignores an index beyond the capacity.
    #[must_use]
    pub const fn with(mut self, channel: usize) -> Self {
        if channel < Self::CAPACITY {
            self.0[channel / 64] |= 1 << (channel % 64);
        }
        self
    }

    /// Returns true if the set has the channel.
    pub const fn contains(&self, channel: usize) -> bool {
        channel < Self::CAPACITY && self.0[channel / 64] & (1 << (channel % 64)) != 0
    }

    /// Returns the union of the two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] | b[0], a[1] | b[1], a[2] | b[2], a[3] | b[3]])
    }

    /// Returns the channels that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]])
    }

    /// Returns the channels of this set that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] & !b[0], a[1] & !b[1], a[2] & !b[2], a[3] & !b[3]])
    }

    /// Returns the channel with the least index, or `None` if the set is empty.
    pub const fn first(&self) -> Option<usize> {
        let mut word = 0;
        while word < WORDS {
            if self.0[word] != 0 {
                return Some(64 * word + self.0[word].trailing_zeros() as usize);
            }
            word += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_compute_as_sets() {
        let set = |channels: &[usize]| channels.iter().copied().fold(ChannelSet::EMPTY, ChannelSet::with);
        // Checks the first, the second and the last channel of each word.
        for word in 0..WORDS {
            let [a, b, c] = [0, 1, 63].map(|channel| 64 * word + channel);
            let (ab, bc) = (set(&[a, b]), set(&[b, c]));
            assert_eq!((ab.union(bc), ab.intersection(bc), ab.without(bc)), (set(&[a, b, c]), set(&[b]), set(&[a])));
            assert_eq!((ab.first(), bc.first(), bc.without(ab).first()), (Some(a), Some(b), Some(c)));
            assert!(ab.contains(a) && ab.contains(b) && !ab.contains(c) && ChannelSet::ALL.contains(c));
        }
        assert_eq!(ChannelSet::EMPTY.first(), None);
    }

    #[test]
    fn sets_ignore_channels_beyond_their_capacity() {
        let beyond = ChannelSet::EMPTY.with(ChannelSet::CAPACITY);
        assert_eq!(beyond, ChannelSet::EMPTY);
        assert!(!ChannelSet::ALL.contains(ChannelSet::CAPACITY));
    }
}
