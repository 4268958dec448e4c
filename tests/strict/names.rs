//! `gen` is a keyword in edition 2024, the edition of the macros, and a plain name here.

use hier_agents::prelude::*;
use hier_draw::Draw;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Names {
    gen: u32,
}

#[derive(View)]
#[view(of = Names)]
struct Seen<'a> {
    gen: &'a u32,
}

async fn gen(seen: Seen<'_>) -> NamesUpdate {
    Names::update().gen(*seen.gen + 1)
}

/// Counts.
#[tool]
async fn count(gen: u32) -> String {
    gen.to_string()
}

graph! {
    Counts<Names> = Graph { nodes: [gen, again = gen], edges: [START >> gen >> if state.gen > 1 { again } else { END }, again >> END] }
}

#[test]
fn gen_is_a_name_in_edition_2021() {
    assert!(Counts::compile().spec().mermaid().contains("gen"));
    assert!(format!("{:?}", count {}).contains("count"));
}
