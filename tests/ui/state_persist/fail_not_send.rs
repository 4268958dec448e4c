//! A state moves between threads, also what is not persisted of it.

use hier_core::prelude::*;
use std::rc::Rc;

#[derive(State, Clone, Debug, Default)]
struct Filing {
    #[channel(untracked)]
    shared: Option<Rc<String>>,
    title: String,
}

fn main() {}
