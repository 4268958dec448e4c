// The nearest program: the path begins with the type.

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
        nodes: [assess = Clerk::assess],
        edges: [START >> assess >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
