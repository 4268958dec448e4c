use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Reviews a filing until it is accepted.
    pub(crate) Review<Filing, ()> = Graph {
        nodes: [
            fetch { retry: 2, timeout: 5s, cache: 3m, idle_timeout: 1.5s },
            assess { retry: Retry { attempts: 3, interval: 100ms, factor: 2.0, cap: 10s, jitter: 0.5 }, defer },
            notify { retry: ATTEMPTS, timeout: std::time::Duration::MAX, writes: [findings], goto: [fetch, END] },
        ],
        edges: [
            START >> fetch >> assess,
            assess >> match verdict {
                Verdict::Accept => [notify, END],
                Verdict::Redo if ATTEMPTS > 1 => fetch,
                Verdict::Redo | Verdict::Reject => if (|state: &Filing| state.accepted) { fetch } else { END },
            },
            notify >> END,
        ],
        interrupt_before: [notify],
        interrupt_after: [fetch],
        name: "reviewer",
        description: "Reviews.",
    }
}

graph!(Second::<Filing> = SimpleGraph { compute: first = fetch { timeout: 1h } });

#[cfg(all())]
graph!(Third<Filing> = SimpleGraph { compute: fetch });

const ATTEMPTS: u32 = 3;

async fn fetch() {}
async fn assess() {}
async fn notify() -> Command<Filing> {
    Command::new().goto(Review::fetch).goto(END)
}
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

fn main() {
    let _ = (Review::compile(), Second::compile_as_root(), Third::compile());
}
