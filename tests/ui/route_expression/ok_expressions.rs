// A route may be an expression in which `state` is the state, or which uses a variable of an outer pattern.

use hier_agents::prelude::*;
use hier_draw::Draw;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum Verdict {
    #[default]
    Redo,
    Accept,
    One(String),
    Many(Vec<String>),
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    seconds: u32,
    user: String,
    verdict: Verdict,
    next: Option<String>,
    docs: Vec<String>,
    #[reducer(append)]
    read: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [tick, fetch, assess, last],
        edges: [
            START >> tick >> if state.seconds == 0 { assess } else if many(&state.docs, 9) { END } else { tick },
            START >> for doc in state.docs { fetch(doc) },
            START >> for doc in state.docs.iter().filter(|doc| doc.len() > 3).cloned() { fetch(doc) },
            fetch >> if let Some(doc) = state.next { last(format!("{doc} of {}", state.user)) } else { END },
            assess >> match state.verdict {
                Verdict::Redo if state.seconds > 100 => tick,
                Verdict::Redo | Verdict::Accept => END,
                Verdict::Many(docs) => for doc in docs { fetch(doc) },
                Verdict::One(doc) if doc.is_empty() => if doc == state.user { tick } else { END },
                Verdict::One(doc) => if matches!(state.next, None) { fetch(doc) } else { [fetch(doc), last(state.user.clone())] },
            },
            last >> END,
        ],
    }
}

fn many(docs: &[String], least: usize) -> bool {
    docs.len() >= least
}

async fn tick(state: &Filing) -> FilingUpdate {
    Filing::update().seconds(state.seconds.saturating_sub(1))
}
async fn fetch(Sent(doc): Sent<String>) -> FilingUpdate {
    Filing::update().read([doc])
}
async fn assess() {}
async fn last(Sent(_doc): Sent<String>) {}

fn main() {
    let dot = Review::SPEC.dot();
    assert!(dot.contains("many(&state.docs, 9): true"), "{dot}");
    assert!(dot.contains("doc == state.user: true"), "{dot}");
    assert!(dot.contains("matches!(state.next, None): false"), "{dot}");
}
