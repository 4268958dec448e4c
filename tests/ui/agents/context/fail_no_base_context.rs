//! An agent finds its model in a context with a `BaseContext`.

use hier_agents::prelude::*;

struct Desk;

graph! {
    Clerk<BaseState, Desk> = ReactGraph {}
}

graph! {
    Plain<BaseState, Desk> = Graph { nodes: [think], edges: [START >> think >> END] }
}

async fn think(run: &Run<Desk>) -> hier_core::Result<()> {
    run.model()?.ask("x").await?;
    Ok(())
}

fn main() {
    let _ = (Clerk::compile(), Plain::compile());
}
