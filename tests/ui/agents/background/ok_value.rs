use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Does the work.
    Worker<Filing> = Agent { tools: [note] }
}

/// Notes a finding.
#[tool]
async fn note(text: String) -> Command<Filing> {
    Command::update(Filing::update().findings(text))
}

graph! {
    Desk<Filing> = Agent {
        subagents: [Worker { background: true }],
    }
}

graph! {
    Other<Filing> = Agent {
        subagents: [Worker { background: true, max_iterations: 8, clear_messages: false }],
    }
}

graph! {
    Third<Filing> = Agent {
        subagents: [Worker { detached: true }],
    }
}

graph! {
    Fourth<Filing> = Agent {
        subagents: [Worker { background: true, detached: true }],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
