//! A generic state without `Default` is reported once, too.

use hier_agents::prelude::*;

#[derive(State, Clone)]
struct Filing<T> {
    items: Vec<T>,
}

fn main() {
    let _ = Filing::<String>::update().items(vec!["a".to_owned()]);
}
