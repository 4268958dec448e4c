// A graph that takes its whole state may receive every channel.

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

async fn assess(risk: Risk<'_>) -> Result<Assessment, NodeError> {
    Ok(Assessment { verdict: format!("risk {}", risk.risk), findings: Vec::new() })
}

#[derive(View)]
#[view(of = Filing)]
struct Note {
    findings: Vec<String>,
}

async fn note(papers: Papers<'_>) -> Note {
    Note { findings: papers.documents.clone() }
}

#[derive(View)]
#[view(of = Filing)]
struct Summary<'a> {
    summary: &'a String,
}

async fn print(summary: Summary<'_>) -> Note {
    Note { findings: vec![summary.summary.clone()] }
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess, print],
        edges: [START >> assess >> print >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
