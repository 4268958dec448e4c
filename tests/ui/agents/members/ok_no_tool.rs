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

/// Works.
#[tool]
async fn help(text: String) -> String {
    text
}

graph! {
    Desk<Filing> = ReactGraph {
        tools: [help],
    }
}

mod desk {
    use hier_agents::prelude::*;

    /// Prints.
    #[tool]
    pub async fn print(text: String) -> String {
        text
    }
}

/// Has the name of a macro, which is called in the same graph.
#[tool]
async fn format(text: String) -> String {
    text
}

graph! {
    Elsewhere<Filing> = ReactGraph {
        system: format!("You {}.", "print"),
        tools: [desk::print, format, hier_agents::ask_operator],
    }
}

fn main() {
/// Is declared in a function, like the graph.
    #[tool]
    async fn here(text: String) -> String {
        text
    }

    graph! {
        Local<Filing> = Graph { nodes: [act = tools![here, help]], edges: [START >> act >> END] }
    }

    let _ = (Desk::compile_as_root(), Elsewhere::compile_as_root(), Local::compile());
}
