// A route that uses the whole state claims no reads.

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

async fn review(papers: Papers<'_>) -> Assessment {
    Assessment { verdict: papers.documents.join(", "), findings: Vec::new() }
}

fn tries(filing: &Filing) -> u32 {
    filing.tries
}

graph! {
    Review<Filing> = Graph {
        input: Request,
        nodes: [rate, review],
        edges: [START >> rate >> match state.risk { risk if risk > f64::from(tries(state)) => END, _ => review }, review >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
