//! The state of a view is a type after `of =`.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(View)]
#[view(Filing)]
struct Alone {
    title: String,
}

#[derive(View)]
#[view(of: Filing)]
struct Colon {
    title: String,
}

#[derive(View)]
#[view("Filing")]
struct Quoted {
    title: String,
}

#[derive(View)]
#[view(of = "Filing")]
struct QuotedValue {
    title: String,
}

#[derive(View)]
#[view(of = Filing, optional)]
struct Optional {
    title: String,
}

fn main() {}
