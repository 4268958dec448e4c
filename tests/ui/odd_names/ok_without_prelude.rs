// Generated code does not depend on the prelude.

use hier_core::prelude::{State, View, graph};

#[derive(State, Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Filing {
    #[reducer(append)]
    notes: Vec<String>,
    accepted: bool,
}

#[derive(View)]
#[view(of = Filing)]
struct Verdict {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        output: Verdict,
        nodes: [assess { retry: 3, timeout: 5s, cache: 60s }, reply],
        edges: [START >> assess >> if is_accepted { reply } else { END }, reply >> END],
    }
}

async fn assess(state: &Filing) -> FilingUpdate {
    FilingUpdate::default().accepted(state.notes.is_empty())
}

async fn reply(run: &hier_core::Run) -> FilingUpdate {
    FilingUpdate::default().notes([run.node().to_owned()])
}

fn is_accepted(state: &Filing) -> bool {
    state.accepted
}

mod agents {
    use hier_agents::prelude::{graph, tool};

    graph! {
        Desk<hier_agents::MessagesState> = Agent { system: "You are brief.", tools: [weather] }
    }

    /// The weather of a city.
    #[tool]
    async fn weather(city: String) -> String {
        city
    }

    pub(super) fn compiled() -> usize {
        <Desk as hier_core::graph::Graph>::compile().spec().nodes.len()
    }
}

fn main() {
    let review = <Review as hier_core::graph::Graph>::compile();
    assert_eq!(review.spec().nodes.len(), 2);
    assert!(agents::compiled() > 0);
}
