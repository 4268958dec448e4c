//! A node takes a view that borrows; the input and the output of a graph are views that own.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    title: &'a String,
}

#[derive(View)]
#[view(of = Filing)]
struct Asked {
    title: String,
}

async fn look(_view: Asked) {}

async fn rest() {}

graph! {
    Look<Filing> = Graph {
        nodes: [look],
        edges: [START >> look >> END],
    }
}

graph! {
    Ask<Filing> = Graph {
        output: Seen<'static>,
        nodes: [rest],
        edges: [START >> rest >> END],
    }
}

fn main() {
    let _ = Seen { title: &String::new() };
}
