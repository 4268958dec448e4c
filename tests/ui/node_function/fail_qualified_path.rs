// A node cannot have a qualified path.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

trait Desk {
    async fn assess() -> FilingUpdate;
}

struct Clerk;

impl Desk for Clerk {
    async fn assess() -> FilingUpdate {
        Filing::update().accepted(true)
    }
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess = <Clerk as Desk>::assess],
        edges: [START >> assess >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
