//! The tools that a model has found by search, as a channel.

use serde::{Deserialize, Serialize};

/// The names of the tools that a model has found with a [`ToolSearch`](crate::ToolSearch), in the order in which it
/// found them. The channel `found_tools` has this type.
///
/// Found tools stay for the whole thread. A subagent that starts with an empty conversation starts without found tools.
///
/// ```
/// use hier_agents::FoundTools;
///
/// let mut found = FoundTools::from_iter(["refund", "ship"]);
/// found.merge(FoundTools::from_iter(["ship", "cancel"]));
/// assert_eq!(found.names().collect::<Vec<_>>(), ["refund", "ship", "cancel"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FoundTools(Vec<String>);

impl FoundTools {
    /// Iterates over the names, in the order in which the tools were found.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns true if the model has found this tool.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Returns true if the model has found no tool.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the names that are not in the list yet. The channel uses this function as its reducer.
    pub fn merge(&mut self, more: Self) {
        for name in more.0 {
            self.add(name);
        }
    }

    pub(crate) fn add(&mut self, name: String) {
        if !self.contains(&name) {
            self.0.push(name);
        }
    }
}

impl<T: Into<String>> FromIterator<T> for FoundTools {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut found = Self::default();
        found.merge(Self(names.into_iter().map(Into::into).collect()));
        found
    }
}
