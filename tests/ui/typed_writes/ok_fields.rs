// A field has the type of its channel, or is an `Option` or an `Overwrite` of it.

use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Assessment {
    title: String,
    artifact: Option<String>,
    #[view(optional)]
    findings: Option<Vec<String>>,
}

#[derive(View)]
#[view(of = Filing)]
struct Cleared {
    #[view(optional)]
    artifact: Option<Option<String>>,
    findings: Overwrite<Vec<String>>,
}

async fn assess() -> Result<Assessment, NodeError> {
    Ok(Assessment { title: "t".to_owned(), artifact: None, findings: Some(vec!["f".to_owned()]) })
}

async fn clear() -> Option<Cleared> {
    Some(Cleared { artifact: Some(None), findings: Overwrite(Vec::new()) })
}

async fn decide() -> Command<Filing> {
    let assessment = Assessment { title: "u".to_owned(), artifact: Some("a".to_owned()), findings: None };
    Command::update(assessment).goto(END)
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess, clear, decide { goto: [END] }],
        edges: [START >> assess >> clear >> decide],
    }
}

fn main() {
    let _ = Review::compile();
}
