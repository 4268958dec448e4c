//! Mistakes in the syntax of a node that calls tools.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

/// Looks.
#[tool]
async fn look() -> bool {
    true
}

graph! {
    Review<Chat> = Graph {
        nodes: [
            a = tools![],
            b = tool![look],
            c = tools!["look"],
            d = tools![look()],
            f = tools![|| 3],
            e { tool_errors: hier_agents::ToolErrors::Tell },
            tick(3),
        ],
        edges: [START >> [a, b, c, d, e, f, tick], [a, b, c, d, e, f, tick] >> END],
    }
}

async fn e() {}
async fn tick() {}

fn main() {
    let _ = Review::compile();
}
