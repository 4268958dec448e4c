//! A node and its error handler write a channel that a parallel node also writes.

use hier_agents::prelude::*;
use hier_core::graph::Failure;

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

async fn review(papers: Papers<'_>) -> Assessment {
    Assessment { verdict: papers.documents.join(", "), findings: Vec::new() }
}

async fn recover(failure: Failure) -> Assessment {
    Assessment { verdict: failure.node, findings: Vec::new() }
}

graph! {
    Review<Filing> = Graph {
        nodes: [rate, assess { on_error: recover }, review],
        edges: [START >> rate >> [assess, review] >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
