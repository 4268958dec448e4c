// The nearest program: the associated types can be part of a state.

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
    type Entry = String;
    type Note = u32;
}

graph! {
    Review<Filing<Births>> = Graph {
        nodes: [assess],
        edges: [START >> assess >> END],
    }
}

async fn assess(state: &Filing<Births>) -> FilingUpdate<Births> {
    FilingUpdate::default().entries(state.entries.clone()).note(state.note + 1)
}

fn main() {
    let _ = Review::compile();
}
