//! A graph with a context does not run without one.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    fee: u32,
}

struct Desk {
    fee: u32,
}

graph! {
    Review<Filing, Desk> = Graph { nodes: [charge], edges: [START >> charge >> END] }
}

async fn charge(run: &Run<Desk>) -> FilingUpdate {
    Filing::update().fee(run.context().fee)
}

async fn invoked() {
    let _ = Review::compile().invoke(Filing::update()).thread("case-17").await;
}

async fn streamed() {
    let mut events = Review::compile().stream(Filing::update()).modes([StreamMode::Values]);
    let _ = events.next().await;
}

fn main() {}
