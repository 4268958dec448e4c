//! Reducers as other frameworks write them. The channels have a reducer nevertheless, so that no other errors follow.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(operator.add)]
    findings: Vec<String>,
    #[reducer(operator::add)]
    total: u32,
    #[reducer(union)]
    seen: Vec<String>,
    #[reducer(merge)]
    notes: Vec<String>,
    #[reducer(|old, new| old.extend(new))]
    sources: Vec<String>,
    #[reducer(func = merge)]
    checks: Vec<String>,
    #[channel(operator.add)]
    marks: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch { writes: [findings, sources] }, assess { writes: [findings, sources] }],
        edges: [START >> [fetch, assess], [fetch, assess] >> END],
    }
}

async fn fetch() -> FilingUpdate {
    Filing::update().findings("a receipt").total(3u32).sources("a file")
}

async fn assess() -> FilingUpdate {
    Filing::update().findings(["a receipt"]).seen("a file").notes("a note").sources("a file")
}

fn main() {
    let _ = Review::compile();
}
