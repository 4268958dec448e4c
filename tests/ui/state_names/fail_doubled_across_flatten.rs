//! A channel with the name of a flattened one, also two levels down.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Root {
    messages: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    #[state(flatten)]
    root: Root,
    progress: f32,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    title: String,
    progress: f64,
    #[state(rename = "messages")]
    letters: Vec<String>,
}

fn main() {}
