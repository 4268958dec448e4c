use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Grph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }

    Second<Filing> = Graph {}
}

graph! {
    pub Third = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }
}

graph! {
    Fourth<T><Filing> = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }
}

graph! {
    /// Never exists.
    #[cfg(any())]
    Fifth<Filing> = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }
}

async fn fetch() {}

fn main() {
    let _ = (Review::compile(), Fifth::compile());
}
