use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Words {
    count: u32,
}

graph! {
    Counts<Words> = Graph { nodes: [crate], edges: [START >> END] }
}

graph! {
    Adds<Words> = Graph { nodes: [self], edges: [START >> END] }
}

graph! {
    Takes<Words> = Graph { nodes: [Self], edges: [START >> END] }
}

graph! {
    Gives<Words> = Graph { nodes: [super], edges: [START >> END] }
}

fn main() {}
