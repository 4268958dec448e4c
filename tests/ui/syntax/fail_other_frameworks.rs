// The syntax of other frameworks and languages. Each mistake is reported once, with the syntax of `graph!`.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    documents: Vec<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Kind<Filing> = StateGraph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }
}

graph! {
    Fields<Filing> = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
        entry_point: fetch,
        conditional_edges: [fetch],
    }
}

graph! {
    Nodes<Filing> = Graph {
        nodes: ["fetch", ("assess", assess), check = fetch { retry_policy: 3, ends: [assess] }],
        edges: [START >> fetch >> assess >> check >> END],
    }
}

graph! {
    Edges<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            add_edge(START, fetch),
            __start__ >> fetch >> assess >> END,
        ],
    }
}

graph! {
    Targets<Filing> = Graph {
        nodes: [fetch, assess, read],
        edges: [
            START >> fetch >> match state.accepted { true => [assess, "END"], false => assess },
            assess >> for document in state.documents { Send("read", document) },
            read >> END,
        ],
    }
}

graph! {
    Conditions<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> if not state.accepted { assess } else { END },
            START >> assess >> if state.accepted and state.findings.is_empty() { fetch } else { END },
        ],
    }
}

graph! {
    Elif<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> if state.accepted { END } elif state.findings.is_empty() { fetch } else { assess },
            assess >> END,
        ],
    }
}

graph! {
    Reference<&Filing> = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    };
}

async fn fetch() {}

async fn assess() {}

async fn read(_: Sent<String>) {}

fn main() {
    let _ = (Kind::compile(), Fields::compile(), Nodes::compile(), Edges::compile());
    let _ = (Targets::compile(), Conditions::compile(), Elif::compile(), Reference::compile());
}
