//! The input of a graph must be a view of its state that owns its fields.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Other {
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Borrowed<'a> {
    title: &'a String,
}

#[derive(View)]
#[view(of = Other)]
struct Foreign {
    title: String,
}

graph! { Text<Filing> = Graph { input: String, nodes: [file], edges: [START >> file >> END] } }

graph! { Borrows<Filing> = Graph { input: Borrowed<'static>, nodes: [file], edges: [START >> file >> END] } }

graph! { Foreigner<Filing> = Graph { input: Foreign, nodes: [file], edges: [START >> file >> END] } }

async fn file() {}

fn main() {}
