// The nearest programs: types that are channels with every parameter, with and without bounds, and views of them.

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

#[derive(State, Clone, Default, Serialize, Deserialize)]
#[serde(bound = "")]
struct Tree<T: Clone + Default + Serialize + serde::de::DeserializeOwned> {
    label: Option<T>,
    #[reducer(append)]
    children: Vec<Self>,
}

#[derive(View)]
#[view(of = Filing<T, U>)]
struct Seen<'a, T, U> {
    items: &'a Vec<T>,
    amounts: &'a BTreeMap<String, U>,
}

#[derive(View)]
#[view(of = Base<T>)]
struct Found<T> {
    items: Vec<T>,
}

async fn count(seen: Seen<'_, String, u32>) -> Found<String> {
    Found { items: vec![format!("{} of {}", seen.items.len(), seen.amounts.len())] }
}

graph! {
    Count<Filing<String, u32>> = Graph { nodes: [count], edges: [START >> count >> END] }
}

fn main() {
    let _ = Count::compile();
    let _ = Filing::<String, u32>::update().items(vec!["a".to_owned()]).amounts([("a".to_owned(), 1)]);
    let _ = Tree::<u8>::update().label(1).children([Tree::default()]);
    let _ = Sorted::<String, 3>::update().items([("a".to_owned(), [1, 2])]);
}
