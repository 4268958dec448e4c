//! The fields of a state by name, for constants.

use crate::channel::equal;

/// A field of a state.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: &'static str,
    channel: Option<&'static str>,
    has_initial: bool,
}

impl Field {
    /// Creates the field of a channel.
    pub const fn of(name: &'static str, channel: &'static str) -> Self {
        Self { name, channel: Some(channel), has_initial: false }
    }

    /// Creates a managed field, which has no channel.
    pub const fn managed(name: &'static str) -> Self {
        Self { name, channel: None, has_initial: false }
    }

    /// Marks the channel: nodes may read its initial value.
    #[must_use]
    pub const fn initial(self) -> Self {
        Self { has_initial: true, ..self }
    }

    /// Returns the name of the field's channel. Returns none for a managed field.
    pub const fn channel(&self) -> Option<&'static str> {
        self.channel
    }

    /// Returns true if nodes may read the initial value of the channel.
    pub const fn has_initial(&self) -> bool {
        self.has_initial
    }
}

/// The fields of a state, then those of the state that it flattens. A field hides a flattened one of the same name.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    own: &'static [Field],
    flattened: Option<&'static Fields>,
}

impl Fields {
    /// Creates the table.
    pub const fn new(own: &'static [Field], flattened: Option<&'static Self>) -> Self {
        Self { own, flattened }
    }

    /// Returns the field with this name.
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

    /// Returns the own fields.
    pub const fn own(&self) -> &'static [Field] {
        self.own
    }

    /// Returns the fields of the flattened state.
    pub const fn flattened(&self) -> Option<&'static Self> {
        self.flattened
    }

    /// Returns the channels of these fields. A managed field has none. The compiler reports an unknown field where it is
    /// used.
    pub const fn channels<const N: usize>(&self, names: [&str; N]) -> [Option<&'static str>; N] {
        let (mut channels, mut at) = ([None; N], 0);
        while at < N {
            if let Some(field) = self.find(names[at]) {
                channels[at] = field.channel;
            }
            at += 1;
        }
        channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: Fields = Fields::new(&[Field::of("title", "title"), Field::of("tries", "attempts").initial()], None);
    const OUTER: Fields = Fields::new(&[Field::of("title", "heading"), Field::managed("left")], Some(&INNER));

    #[test]
    fn fields_have_the_channels_of_the_outermost_state() {
        assert_eq!(OUTER.channels(["title", "tries", "left"]), [Some("heading"), Some("attempts"), None]);
        assert!(OUTER.find("tries").is_some_and(|field| field.has_initial()));
        assert!(OUTER.find("heading").is_none());
    }
}
