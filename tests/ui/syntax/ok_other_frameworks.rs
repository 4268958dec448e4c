use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    documents: Vec<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Nodes<Filing> = Graph {
        nodes: [fetch, assess, check = fetch { retry: 3, goto: [assess] }],
        edges: [START >> fetch >> assess >> check >> END],
    }
}

graph! {
    Targets<Filing> = Graph {
        nodes: [fetch, assess, read],
        edges: [
            START >> fetch >> match state.accepted { true => [assess, END], false => assess },
            assess >> for document in state.documents { read(document) },
            read >> END,
        ],
    }
}

graph! {
    Conditions<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> if !state.accepted { assess } else { END },
            START >> assess >> if state.accepted && state.findings.is_empty() { fetch } else { END },
        ],
    }
}

graph! {
    ElseIf<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> if state.accepted { END } else if state.findings.is_empty() { fetch } else { assess },
            assess >> END,
        ],
    }
}

// A route and a node can have the names of other languages' words.
graph! {
    Named<Filing> = Graph {
        nodes: [Send = read, and = fetch],
        edges: [
            START >> and >> if not { and } else { END },
            START >> for document in state.documents { Send(document) },
            Send >> END,
        ],
    }
}

fn not(state: &Filing) -> bool {
    !state.accepted
}

async fn fetch() {}

async fn assess() {}

async fn read(_: Sent<String>) {}

fn main() {
    let _ = (Nodes::compile(), Targets::compile(), Conditions::compile(), ElseIf::compile(), Named::compile());
}
