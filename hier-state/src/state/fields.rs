//! The fields of a state by name, for constants.
//!
//! The compiler interprets these functions for each view and each node. Generated code therefore passes hashes of
//! names, which compare in one operation. The macros report two fields of one name.

use hier_spec::flow::ChannelSet;

use crate::channel::equal;

/// A field of a state.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: &'static str,
    hash: u64,
    channel: Option<&'static str>,
    has_initial: bool,
}

impl Field {
    /// Creates a field with a channel. `hash` is the hash of the field's name, which can differ from the name of the
    /// channel.
    pub const fn of(name: &'static str, hash: u64, channel: &'static str) -> Self {
        Self { name, hash, channel: Some(channel), has_initial: false }
    }

    /// Creates a managed field, which has no channel.
    pub const fn managed(name: &'static str, hash: u64) -> Self {
        Self { name, hash, channel: None, has_initial: false }
    }

    /// Records that the channel has an initial value that nodes may read.
    #[must_use]
    pub const fn initial(self) -> Self {
        Self { has_initial: true, ..self }
    }

    /// Returns the name of the field's channel. Returns `None` for a managed field.
    pub const fn channel(&self) -> Option<&'static str> {
        self.channel
    }
}

/// The fields of a state, followed by the fields of the state that it flattens. A field hides a field with the same
/// name in the flattened state.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    own: &'static [Field],
    /// The number of own channels. Their fields come first, in the order of the channels.
    channels: usize,
    flattened: Option<&'static Fields>,
}

impl Fields {
    /// Creates the table from `own`, the fields that the state itself declares. The fields with a channel must come
    /// first in `own`, in the order of the channels, and `channels` must be their number. If a field and a flattened
    /// field have different names and the same hash, the program does not compile.
    pub const fn new(own: &'static [Field], channels: usize, flattened: Option<&'static Self>) -> Self {
        let mut inner = flattened;
        while let Some(fields) = inner {
            assert!(
                !have_equal_hashes(own, fields.own),
                "a field of the state and a field of the flattened state have the same hash: rename one of them"
            );
            inner = fields.flattened;
        }
        Self { own, channels, flattened }
    }

    /// Returns the field with this name, or `None` if no field has this name.
    pub const fn find(&self, name: &str) -> Option<Field> {
        let mut at = 0;
        while at < self.own.len() {
            if equal(self.own[at].name, name) {
                return Some(self.own[at]);
            }
            at += 1;
        }
        match self.flattened {
            Some(fields) => fields.find(name),
            None => None,
        }
    }

    /// Returns the index of a field's channel, or `None` for a managed field.
    const fn channel(&self, field: u64) -> Option<usize> {
        let mut at = 0;
        while at < self.own.len() {
            if self.own[at].hash == field {
                return if at < self.channels { Some(at) } else { None };
            }
            at += 1;
        }
        let Some(fields) = self.flattened else { return None };
        match fields.channel(field) {
            Some(channel) => Some(self.channels + channel),
            None => None,
        }
    }

    /// Returns the set of the channels of some fields. `fields` contains the hashes of the names of these fields. The
    /// set has the indices that the channels have in an outer state, which flattens this state. `first` is the index of
    /// this state's first channel in the outer state, or 0 without an outer state.
    ///
    /// Returns `None` if `first` is `None`, or if an index exceeds the capacity of the set. Ignores managed fields, and
    /// unknown fields, which the compiler reports elsewhere.
    pub const fn set<const N: usize>(self, first: Option<usize>, fields: [u64; N]) -> Option<ChannelSet> {
        let Some(first) = first else { return None };
        let (mut set, mut at) = (ChannelSet::EMPTY, 0);
        while at < N {
            if let Some(channel) = self.channel(fields[at]) {
                if first + channel >= ChannelSet::CAPACITY {
                    return None;
                }
                set = set.with(first + channel);
            }
            at += 1;
        }
        Some(set)
    }

    /// Returns the channels that have an initial value that nodes may read.
    pub const fn initial(&self) -> ChannelSet {
        self.initial_from(0)
    }

    const fn initial_from(&self, first: usize) -> ChannelSet {
        let (mut set, mut at) = (ChannelSet::EMPTY, 0);
        while at < self.channels {
            if self.own[at].has_initial {
                set = set.with(first + at);
            }
            at += 1;
        }
        match self.flattened {
            Some(fields) => set.union(fields.initial_from(first + self.channels)),
            None => set,
        }
    }

    /// Returns true if the field with the hash `field` belongs to the channel with the name `channel`.
    pub const fn is_channel(&self, field: u64, channel: &str) -> bool {
        let mut at = 0;
        while at < self.own.len() {
            if self.own[at].hash == field {
                return match self.own[at].channel {
                    Some(name) => equal(name, channel),
                    None => false,
                };
            }
            at += 1;
        }
        match self.flattened {
            Some(flattened) => flattened.is_channel(field, channel),
            None => false,
        }
    }
}

/// Returns true if two fields have the same hash and different names.
const fn have_equal_hashes(some: &[Field], others: &[Field]) -> bool {
    let mut one = 0;
    while one < some.len() {
        let mut other = 0;
        while other < others.len() {
            if some[one].hash == others[other].hash && !equal(some[one].name, others[other].name) {
                return true;
            }
            other += 1;
        }
        one += 1;
    }
    false
}

/// Converts an index of the flattened state to an index of the outer state, which flattens it. `inner` is the index of
/// a channel in the flattened state. `own` is the number of channels that the outer state itself declares. These
/// channels come first. Returns `None` if `inner` is `None`.
pub const fn behind(own: usize, inner: Option<usize>) -> Option<usize> {
    match inner {
        Some(inner) => Some(own + inner),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: u64 = 1;
    const TRIES: u64 = 2;
    const LEFT: u64 = 3;
    const INNER: Fields =
        Fields::new(&[Field::of("title", TITLE, "title"), Field::of("tries", TRIES, "attempts").initial()], 2, None);
    const OUTER: Fields =
        Fields::new(&[Field::of("title", TITLE, "heading"), Field::managed("left", LEFT)], 1, Some(&INNER));

    #[test]
    #[should_panic(expected = "a field of the state and a field of the flattened state have the same hash")]
    fn flattened_field_with_the_hash_of_another_name_is_refused() {
        const MIDDLE: Fields = Fields::new(&[], 0, Some(&INNER));
        const OWN: &[Field] = &[Field::managed("other", TRIES)];
        let _ = Fields::new(OWN, 0, Some(&MIDDLE));
    }

    #[test]
    fn fields_have_the_channels_of_the_outermost_state() {
        let set = |channels: &[usize]| Some(channels.iter().fold(ChannelSet::EMPTY, |set, at| set.with(*at)));
        assert_eq!(OUTER.set(Some(0), [TITLE, TRIES, LEFT]), set(&[0, 2]));
        assert_eq!(OUTER.set(Some(5), [TRIES, 4]), set(&[7]));
        assert_eq!((OUTER.set(None, [TITLE]), Some(OUTER.initial())), (None, set(&[2])));
        assert_eq!(OUTER.set(Some(ChannelSet::CAPACITY - 2), [TITLE]), set(&[ChannelSet::CAPACITY - 2]));
        assert_eq!(OUTER.set(Some(ChannelSet::CAPACITY - 2), [TRIES]), None);
        assert!(OUTER.find("tries").is_some_and(|field| field.channel() == Some("attempts")));
        assert!(OUTER.find("heading").is_none());
        assert!(OUTER.is_channel(TRIES, "attempts") && !OUTER.is_channel(TRIES, "heading"));
    }
}
