use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Does the work.
    Worker<Filing> = ReactGraph { system: "You work." }
}

graph! {
    Desk<Filing> = ReactGraph {
        tools: [help],
    }
}

graph! {
    Misspelt<Filing> = ReactGraph {
        tools: [hepl],
    }
}

graph! {
    Nodes<Filing> = Graph {
        nodes: [act = tools![help]],
        edges: [START >> act >> END],
    }
}

async fn help() {}

mod desk {
    /// Looks for a word.
    #[hier_agents::prelude::tool]
    pub async fn search(word: String) -> String {
        word
    }
}
use desk::search;

graph! {
    Similar<Filing> = ReactGraph {
        tools: [serach],
    }
}

graph! {
    SimilarNodes<Filing> = Graph {
        nodes: [act = tools![serach, search]],
        edges: [START >> act >> END],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
