// The nearest programs: types that are channels with every parameter, with and without bounds.

use std::collections::BTreeMap;

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Base<T> {
    #[reducer(append)]
    items: Vec<T>,
}

#[derive(State, Clone, Default)]
struct Filing<T, U> {
    #[state(flatten)]
    base: Base<T>,
    amounts: BTreeMap<String, U>,
    #[channel(untracked)]
    raw: Option<U>,
}

#[derive(State, Clone, Default)]
struct Sorted<T: Ord, const N: usize> {
    items: BTreeMap<T, [u8; 2]>,
}

fn main() {
    let _ = Filing::<String, u32>::update().items(vec!["a".to_owned()]).amounts([("a".to_owned(), 1)]);
    let _ = Sorted::<String, 3>::update().items([("a".to_owned(), [1, 2])]);
}
