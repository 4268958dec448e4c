use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [
            fetch { retry: 0, timeout: 5, cache: 3min, idle_timeout: },
            assess { retris: 3, defer: true, on_error: |error| {} },
            "archive",
            notify { retry: Retry { attempts: 3, wait: 1s } } archive,
        ],
        edges: [
            START > fetch,
            fetch >> assess { retry: 3 },
            assess >> match verdict {
                Verdict::Accept => notify >> END,
                Verdict::Redo => ,
                Verdict::Reject => [],
            },
            assess >> for finding in findings { notify },
            notify >>,
            >> END,
        ],
        interupt_before: [notify],
        nodes: [fetch],
        output Filing,
    }
}

async fn fetch() {}
async fn assess() {}
async fn notify() {}
enum Verdict {
    Accept,
    Redo,
    Reject,
}

fn verdict(state: &Filing) -> Verdict {
    match state.findings.len() {
        0 => Verdict::Accept,
        1 => Verdict::Redo,
        _ => Verdict::Reject,
    }
}

fn findings(state: &Filing) -> Vec<String> {
    state.findings.clone()
}

fn main() {
    let _ = Review::compile();
}
