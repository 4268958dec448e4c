// An optional field does not claim a write.

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

#[derive(View)]
#[view(of = Filing)]
struct Doubt {
    #[view(optional)]
    verdict: Option<String>,
    #[view(optional)]
    findings: Option<Vec<String>>,
}

async fn doubt(papers: Papers<'_>) -> Doubt {
    Doubt { verdict: None, findings: papers.documents.first().map(|name| vec![name.clone()]) }
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, assess, doubt],
        edges: [START >> rate >> [assess, doubt] >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
