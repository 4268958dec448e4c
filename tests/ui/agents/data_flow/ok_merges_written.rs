// The policy merges a channel that the subagent writes.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    title: String,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Search {
    #[state(flatten)]
    base: BaseState,
    title: String,
    query: String,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Search)]
struct Query<'a> {
    title: &'a String,
}

#[derive(View)]
#[view(of = Search)]
struct Found {
    findings: Vec<String>,
}

async fn search(query: Query<'_>) -> Found {
    Found { findings: vec![query.title.clone()] }
}

graph! {
    /// Searches.
    Clerk<Search> = SimpleGraph { compute: search }
}

graph! {
    /// Files.
    Desk<Filing> = ReactGraph {
        system: "You file returns.",
        subagents: [Clerk { merge_fields: [findings] }],
    }
}

fn main() {
    let _ = Desk::compile();
}
