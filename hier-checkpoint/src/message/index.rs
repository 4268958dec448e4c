//! The positions of named elements in a persistent list.

use std::hash::{BuildHasherDefault, Hasher};

use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum length of a list that is searched without an index, which would cost more than it saves.
const FEW: usize = 16;

/// An index of the names in a list. For each name, it has the position of the last item with this name. The index stays
/// empty while the list has at most 16 items.
///
/// The index stores hashes instead of names. Clones of the index share its tree, and a change copies a part of the tree,
/// so short keys matter. Two names can have the same hash. A lookup therefore compares the name with that of the item
/// at the position, and searches the whole list if the names differ.
#[derive(Clone, Default)]
pub struct Places(GenericHashMap<u64, usize, BuildHasherDefault<Hashed>, DefaultSharedPtr>);

impl Places {
    /// Records the name of an item before the caller appends the item to a list. `len` is the current length of the
    /// list, and `list` returns the names of its items.
    pub fn add<'a, I>(&mut self, name: Option<&str>, len: usize, list: impl FnOnce() -> I)
    where
        I: Iterator<Item = Option<&'a str>>,
    {
        if len == FEW {
            list().enumerate().for_each(|(place, name)| self.insert(name, place));
        }
        if len >= FEW {
            self.insert(name, len);
        }
    }

    fn insert(&mut self, name: Option<&str>, place: usize) {
        if let Some(name) = name {
            self.0.insert(hash(name), place);
        }
    }

    /// Returns the position of the last item with this name, or `None` if the list has no such item. `len` is the
    /// length of the list, `at` returns the name at a position, and `list` returns all names.
    pub fn find<'a, I>(
        &self,
        name: &str,
        len: usize,
        at: impl FnOnce(usize) -> Option<&'a str>,
        list: impl FnOnce() -> I,
    ) -> Option<usize>
    where
        I: ExactSizeIterator<Item = Option<&'a str>> + DoubleEndedIterator,
    {
        if len > FEW {
            let place = *self.0.get(&hash(name))?;
            if at(place) == Some(name) {
                return Some(place);
            }
            // Another name has the same hash.
        }
        list().rposition(|listed| listed == Some(name))
    }
}

fn hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

#[derive(Clone, Copy, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_colliding_hash_is_found() {
        let names: Vec<String> = (0..40).map(|number| format!("name {number}")).collect();
        let mut places = Places::default();
        for (len, name) in names.iter().enumerate() {
            places.add(Some(name), len, || names[..len].iter().map(|name| Some(&**name)));
        }
        let find = |places: &Places, name: &str| {
            places.find(name, names.len(), |at| Some(&*names[at]), || names.iter().map(|name| Some(&**name)))
        };
        assert_eq!(find(&places, "name 30"), Some(30));
        assert_eq!(find(&places, "name 3"), Some(3));
        assert_eq!(find(&places, "name 40"), None);
        // Simulates a later name with the same hash.
        places.0.insert(hash("name 3"), 30);
        assert_eq!(find(&places, "name 3"), Some(3));
        places.0.insert(hash("name 40"), 30);
        assert_eq!(find(&places, "name 40"), None);
    }
}
