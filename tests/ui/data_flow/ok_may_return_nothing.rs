// A node that may return nothing causes no certain conflict.

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

async fn maybe(papers: Papers<'_>) -> Option<Assessment> {
    let verdict = papers.documents.first()?.clone();
    Some(Assessment { verdict, findings: Vec::new() })
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, assess, maybe],
        edges: [START >> rate >> [assess, maybe] >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
