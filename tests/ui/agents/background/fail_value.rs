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

const IN_BACKGROUND: bool = true;

graph! {
    Desk<Filing> = Agent {
        subagents: [Worker { background: IN_BACKGROUND }],
    }
}

graph! {
    Other<Filing> = Agent {
        subagents: [Worker { backgroud: true }],
    }
}

graph! {
    Third<Filing> = Agent {
        subagents: [Worker { background: false, detached: true }],
    }
}

graph! {
    Fourth<Filing> = Agent {
        policy: Policy { detached: true },
        subagents: [Worker { detached: true, merge_fields: [findings] }],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
