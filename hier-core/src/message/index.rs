//! Where things are in a list that shares what did not change, by their names.

use std::borrow::Borrow;
use std::hash::Hash;

use imbl::HashMap;

/// A list of up to so many is looked through: an index of fewer costs more than it saves.
const FEW: usize = 16;

/// The place of each name, once the list is longer than [`FEW`]. Where a name stands twice, its last.
#[derive(Clone)]
pub(crate) struct Places<K>(HashMap<K, usize>);

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Borrow<str> + Hash + Eq + Clone> Places<K> {
    /// Something with this name is about to be added at the end of the list with these names.
    pub(crate) fn add<'a>(&mut self, name: Option<&K>, list: impl ExactSizeIterator<Item = Option<&'a K>>)
    where
        K: 'a,
    {
        let place = list.len();
        let mut insert = |name: Option<&K>, place| self.0.extend(name.map(|name| (name.clone(), place)));
        if place == FEW {
            list.enumerate().for_each(|(place, name)| insert(name, place));
        }
        if place >= FEW {
            insert(name, place);
        }
    }

    /// Where this name is in the list with these names.
    pub(crate) fn find<'a>(
        &self,
        name: &str,
        mut list: impl ExactSizeIterator<Item = Option<&'a K>> + DoubleEndedIterator,
    ) -> Option<usize>
    where
        K: 'a,
    {
        if list.len() > FEW {
            return self.0.get(name).copied();
        }
        list.rposition(|listed| listed.is_some_and(|listed| listed.borrow() == name))
    }
}
