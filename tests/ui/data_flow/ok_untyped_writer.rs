// The type of an update does not name the written channels.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    documents: Vec<String>,
    risk: f64,
    verdict: String,
    summary: String,
    tries: u32,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Request {
    documents: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Papers<'a> {
    documents: &'a Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Risk<'a> {
    risk: &'a f64,
}

#[derive(View)]
#[view(of = Filing)]
struct Rated {
    risk: f64,
}

#[derive(View)]
#[view(of = Filing)]
struct Assessment {
    verdict: String,
    findings: Vec<String>,
}

async fn rate(papers: Papers<'_>) -> Rated {
    Rated { risk: papers.documents.len() as f64 }
}

async fn assess(risk: Risk<'_>) -> Result<Assessment, NodeError> {
    Ok(Assessment { verdict: format!("risk {}", risk.risk), findings: Vec::new() })
}

async fn review(papers: Papers<'_>) -> FilingUpdate {
    Filing::update().verdict(papers.documents.join(", "))
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, assess, review],
        edges: [START >> rate >> [assess, review] >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
