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

#[no_implicit_prelude]
mod bare {
    use ::core::prelude::rust_2024::derive;
    use ::core::clone::Clone;
    use ::core::default::Default;
    use ::hier_agents::prelude::*;

    #[derive(State, Clone, Default)]
    pub(super) struct Filing {
        #[reducer(append)]
        notes: ::std::vec::Vec<::std::string::String>,
        #[channel(secret)]
        key: ::std::string::String,
    }

    #[derive(View)]
    #[view(of = Filing)]
    struct Seen<'a> {
        notes: &'a ::std::vec::Vec<::std::string::String>,
    }

    async fn assess(seen: Seen<'_>) -> FilingUpdate {
        Filing::update().notes(::std::clone::Clone::clone(seen.notes))
    }

    graph! {
        pub(super) Review<Filing> = Graph {
            nodes: [assess { retry: 3, timeout: 5s, cache: 60s }],
            edges: [START >> assess >> if state.key.is_empty() { END } else { assess }],
        }
    }

    /// Returns the weather of a city.
    #[tool(timeout = 5s, retry = 3, step)]
    async fn weather(city: ::std::string::String, #[default = 3] days: u32, #[default] hours: u32) -> ::std::string::String {
        let _ = (days, hours);
        city
    }

    graph! {
        pub(super) Desk<MessagesState> = Agent { system: "You are brief.", tools: [weather], max_iterations: 4 }
    }
}

fn main() {
    let _ = (<bare::Review as hier_core::graph::Graph>::compile(), <bare::Desk as hier_core::graph::Graph>::compile());
    let review = <Review as hier_core::graph::Graph>::compile();
    assert_eq!(review.spec().nodes.len(), 2);
    assert!(agents::compiled() > 0);
}
