use hier_agents::prelude::*;
use hier_core::state::State;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Root {
    messages: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base<T> {
    #[state(flatten)]
    root: Root,
    progress: f32,
    items: Vec<T>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing<T> {
    #[state(flatten)]
    base: Base<T>,
    title: String,
    #[state(rename = "own_progress")]
    progress: f64,
    letters: Vec<String>,
    _start: String,
}

fn main() {
    assert_eq!(<Filing<u8> as State>::CHANNELS.len(), 7);
}
