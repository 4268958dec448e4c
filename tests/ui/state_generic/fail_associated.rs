// An associated type of a parameter needs what the parameter needs.

use std::rc::Rc;

use hier_core::prelude::*;

trait Register {
    type Entry;
    type Note;
}

#[derive(State, Clone, Default)]
struct Filing<T: Register> {
    #[reducer(append)]
    entries: Vec<T::Entry>,
    last: Option<<T as Register>::Entry>,
    #[channel(untracked)]
    note: T::Note,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Births;

impl Register for Births {
    type Entry = Rc<String>;
    type Note = u32;
}

graph! {
    Review<Filing<Births>> = Graph {
        nodes: [assess],
        edges: [START >> assess >> END],
    }
}

async fn assess() {}

fn main() {
    let _ = Review::compile();
}
