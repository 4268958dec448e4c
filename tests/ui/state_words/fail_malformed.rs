//! Known words in a form without meaning.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer]
    a: Vec<String>,
    #[reducer(append = 3)]
    b: Vec<String>,
    #[reducer(with)]
    c: Vec<String>,
    #[reducer(with = "merge")]
    d: Vec<String>,
    #[channel()]
    e: Vec<String>,
    #[channel(ephemeral = true)]
    f: Vec<String>,
    #[state(flatten = true)]
    g: Vec<String>,
    #[state(rename)]
    h: Vec<String>,
    #[state(rename = other)]
    i: Vec<String>,
    #[reducer(append extend)]
    j: Vec<String>,
}

fn main() {}
