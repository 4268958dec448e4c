//! A complete graph in about ten lines: a state, two nodes and a loop.
//!
//! If you misspell `ignite` in the edges, `log` in a node or `seconds` in the route, the program does not compile. The error
//! is at the misspelt word and suggests the right one.
//!
//! Run it: `cargo run --example ten_lines`

use hier::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Countdown {
    seconds: u32,
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    Launch<Countdown> = Graph {
        nodes: [tick, ignite],
        edges: [START >> tick >> if is_over { ignite } else { tick }, ignite >> END],
    }
}

async fn tick(state: &Countdown) -> CountdownUpdate {
    Countdown::update().log([format!("{} …", state.seconds)]).seconds(state.seconds.saturating_sub(1))
}

async fn ignite() -> CountdownUpdate {
    Countdown::update().log(["Lift-off!".to_owned()])
}

fn is_over(state: &Countdown) -> bool {
    state.seconds == 0
}

#[tokio::main]
async fn main() -> hier::Result<()> {
    let out = Launch::compile().invoke(Countdown::update().seconds(5)).await?;
    out.state().log.iter().for_each(|line| println!("{line}"));
    Ok(())
}
