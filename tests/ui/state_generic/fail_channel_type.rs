//! A wrong type in a generic state is reported once, at the type, whether it mentions the parameter or not.

use std::rc::Rc;

use hier_agents::prelude::*;

#[derive(Clone, Default)]
struct Draft;

#[derive(State, Clone, Default)]
struct Filing<T> {
    items: Vec<T>,
    shared: Option<Rc<T>>,
    draft: Draft,
}

fn main() {
    let _ = Filing::<String>::update().items(vec!["a".to_owned()]);
}
