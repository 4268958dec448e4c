//! Two channels with one name in one struct. The error points to both.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
    #[state(rename = "title")]
    #[reducer(append)]
    name: String,
    #[state(rename = "list")]
    first: Vec<u8>,
    #[state(rename = "list")]
    second: Vec<u8>,
}

fn main() {
    let _ = Filing::update().title("t").name("n").first([1]).second([2]);
}
