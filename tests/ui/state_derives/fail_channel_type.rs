//! The type of a channel is cloned and persisted; what is missing is reported at the type, and not again where the state is used.

use hier_agents::prelude::*;

#[derive(Clone, Debug, Default)]
struct Draft {
    text: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Score {
    points: u32,
}

#[derive(State, Clone, Default)]
struct Filing {
    draft: Draft,
    #[reducer(append)]
    scores: Vec<Score>,
    #[channel(ephemeral)]
    last: Option<Score>,
    accepted: bool,
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    accepted: &'a bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess, look],
        edges: [START >> assess >> look >> END],
    }
}

async fn assess(state: &Filing) -> FilingUpdate {
    Filing::update().accepted(state.draft.text.is_empty())
}

async fn look(seen: Seen<'_>) {
    let _ = seen.accepted;
}

async fn review() -> hier_core::Result<()> {
    let out = Review::compile().invoke(Filing::update().draft(Draft::default())).await?;
    assert!(out.state().accepted);
    Ok(())
}

fn main() {
    let _ = review;
}
