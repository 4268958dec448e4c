//! TODO lists: ordered items, each open or done.

use std::fmt;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use hier_checkpoint::message::Places;

/// A TODO list: items in the order in which they were added, each open or done. Clones are cheap.
///
/// The channel `todo_list` has this type, and merges writes by item. If the list already contains an item of a write,
/// the write replaces the status of the item. The channel adds new items at the end. The JSON form is an object with
/// the items as keys. The value is `true` for an item that is done.
///
/// ```
/// use hier_agents::TodoList;
///
/// let mut list = TodoList::from_iter([("read", true), ("reply", false)]);
/// assert!(!list.is_done());
/// list.set("reply", true);
/// assert!(list.is_done());
/// ```
#[derive(Clone, Default)]
pub struct TodoList {
    items: Vector<(Arc<str>, bool)>,
    places: Places,
    open: usize,
}

impl TodoList {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the number of open items.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns true if the list is not empty and all items are done. Takes constant time.
    pub fn is_done(&self) -> bool {
        !self.is_empty() && self.open == 0
    }

    /// Returns `Some(true)` if the item is done, `Some(false)` if it is open, and `None` if it is not on the list.
    pub fn get(&self, item: &str) -> Option<bool> {
        self.items.get(self.place(item)?).map(|(_, done)| *done)
    }

    /// Sets the status of an item. Adds the item at the end if it is not on the list.
    pub fn set(&mut self, item: impl Into<Arc<str>>, done: bool) {
        let item = item.into();
        let was_open = if let Some(place) = self.place(&item) {
            self.items.get_mut(place).is_some_and(|(_, old)| !std::mem::replace(old, done))
        } else {
            self.places.add(Some(&item), self.items.len(), || names(&self.items));
            self.items.push_back((item, done));
            false
        };
        self.open = self.open + usize::from(!done) - usize::from(was_open);
    }

    /// Iterates over the items in order. The value is true for an item that is done.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, bool)> {
        self.items.iter().map(|(item, done)| (&**item, *done))
    }

    fn place(&self, item: &str) -> Option<usize> {
        let at = |place| self.items.get(place).map(|(item, _)| &**item);
        self.places.find(item, self.items.len(), at, || names(&self.items))
    }

    fn shared(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.items.iter().map(|(item, done)| (item, *done))
    }
}

fn names(items: &Vector<(Arc<str>, bool)>) -> impl ExactSizeIterator<Item = Option<&str>> + DoubleEndedIterator {
    items.iter().map(|(item, _)| Some(&**item))
}

pub(crate) fn merge(list: &mut TodoList, new: TodoList) {
    if list.is_empty() {
        *list = new;
    } else {
        new.shared().for_each(|(item, done)| list.set(item.clone(), done));
    }
}

impl<T: Into<Arc<str>>> FromIterator<(T, bool)> for TodoList {
    fn from_iter<I: IntoIterator<Item = (T, bool)>>(items: I) -> Self {
        let mut list = Self::default();
        items.into_iter().for_each(|(item, done)| list.set(item, done));
        list
    }
}

impl<T: Into<Arc<str>>, const N: usize> From<[(T, bool); N]> for TodoList {
    fn from(items: [(T, bool); N]) -> Self {
        items.into_iter().collect()
    }
}

impl PartialEq for TodoList {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl fmt::Debug for TodoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for TodoList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for TodoList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TodoListVisitor)
    }
}

struct TodoListVisitor;

impl<'de> Visitor<'de> for TodoListVisitor {
    type Value = TodoList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from items to booleans")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TodoList, A::Error> {
        let mut list = TodoList::default();
        while let Some((item, done)) = map.next_entry::<String, bool>()? {
            list.set(item, done);
        }
        Ok(list)
    }
}

/// The TODO lists of several agents, by name. Clones are cheap.
///
/// The channel `todo_lists` has this type, and merges writes by agent and item. If an item is done, later writes cannot
/// open it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TodoLists(OrdMap<Arc<str>, TodoList>);

impl TodoLists {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the list of an agent, or `None` if the map does not contain the agent.
    pub fn get(&self, agent: &str) -> Option<&TodoList> {
        self.0.get(agent)
    }

    /// Iterates over the lists in the order of the agents' names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TodoList)> {
        self.0.iter().map(|(agent, list)| (&**agent, list))
    }

    /// Returns true if there are no lists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn merge_lists(lists: &mut TodoLists, new: TodoLists) {
    for (agent, new) in new.0 {
        let list = lists.0.entry(agent).or_default();
        for (item, done) in new.shared() {
            let done = done || list.get(item).unwrap_or_default();
            list.set(item.clone(), done);
        }
    }
}

from_pairs!(TodoLists, TodoList);
