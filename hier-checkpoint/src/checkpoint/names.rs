use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A list of node names. Up to two names need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(SmallVec<[Arc<str>; 2]>);

impl Deref for Names {
    type Target = [Arc<str>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromIterator<Arc<str>> for Names {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

impl Extend<Arc<str>> for Names {
    fn extend<I: IntoIterator<Item = Arc<str>>>(&mut self, names: I) {
        self.0.extend(names);
    }
}

impl<'a> IntoIterator for &'a Names {
    type Item = &'a Arc<str>;
    type IntoIter = std::slice::Iter<'a, Arc<str>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
