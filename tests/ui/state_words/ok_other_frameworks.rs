use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    findings: Vec<String>,
    #[reducer(sum)]
    total: u32,
    #[reducer(extend)]
    seen: std::collections::BTreeSet<String>,
    #[reducer(with = merge)]
    notes: Vec<String>,
}

fn merge(old: &mut Vec<String>, new: Vec<String>) {
    old.extend(new);
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch { writes: [findings, notes] }, assess { writes: [findings, notes] }],
        edges: [START >> [fetch, assess], [fetch, assess] >> END],
    }
}

async fn fetch() -> FilingUpdate {
    Filing::update().findings("a receipt").total(3u32).notes(["a note"])
}

async fn assess() -> FilingUpdate {
    Filing::update().findings(["a receipt"]).notes(["a note"])
}

fn main() {
    let _ = Review::compile();
}
